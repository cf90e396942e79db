(* An id opens at most one decision: proved of the lives of a handle with versions of a table. What becomes of the
   decisions does not matter, so it is not here: rewards, cancellations, windows, places in the ring. *)
From Coq Require Import List Arith Bool Lia.
Import ListNotations.

(* A life, a version of it, and an id. Versions of different lives have different numbers. *)
Definition named := (nat * nat * nat)%type.
Definition life_of (p : named) := fst (fst p).
Definition version_of (p : named) := snd (fst p).

Inductive table_event :=
| Begins                      (* a version begins *)
| Closes (v : nat)            (* this version and all before it close *)
| Recorded (v i : nat)        (* a record names a version and an id *)
| Forgotten (p : named)       (* an id may leave the queue, if its version is closed *)
| Dies.                       (* a crash, or a restore from a snapshot: the next life *)

Record tables := Tables { life : nat; begun : nat; closed : nat; kept : list named; opened : list named }.

Definition none := Tables 0 0 0 [] [].

Definition equal (p q : named) : {p = q} + {p <> q}.
Proof. repeat decide equality. Defined.

Definition is_open (s : tables) v := (closed s <? v) && (v <=? begun s).

Definition next (s : tables) (e : table_event) : tables :=
  match e with
  | Begins => Tables (life s) (S (begun s)) (closed s) (kept s) (opened s)
  | Closes v => Tables (life s) (begun s) (max (closed s) v) (kept s) (opened s)
  | Recorded v i =>
      let p := (life s, v, i) in
      if is_open s v then
        if in_dec equal p (kept s) then s
        else Tables (life s) (begun s) (closed s) (p :: kept s) (p :: opened s)
      else s
  | Forgotten p =>
      if version_of p <=? closed s
      then Tables (life s) (begun s) (closed s) (remove equal p (kept s)) (opened s)
      else s
  | Dies => Tables (S (life s)) 0 0 [] (opened s)
  end.

Definition after (l : list table_event) := fold_left next l none.

(* What was opened in this life and may still be recorded is in the queue. *)
Definition sound (s : tables) :=
  NoDup (opened s) /\
  (forall p, In p (opened s) -> life_of p <= life s) /\
  (forall p, In p (opened s) -> life_of p = life s -> closed s < version_of p -> In p (kept s)).

Lemma sound_next s e : sound s -> sound (next s e).
Proof.
  intros [N [L K]]. destruct e as [|v|v i|q|]; simpl.
  - repeat split; assumption.
  - repeat split; simpl; auto. intros p I E C. apply K; auto. lia.
  - destruct (is_open s v) eqn:O; [|repeat split; assumption].
    destruct (in_dec equal (life s, v, i) (kept s)) as [I|F]; [repeat split; assumption|].
    unfold is_open in O. apply andb_prop in O. destruct O as [O _]. apply Nat.ltb_lt in O.
    repeat split; simpl.
    + constructor; auto.
    + intros p [<-|I]; auto.
    + intros p [<-|I] E C; auto.
  - destruct (version_of q <=? closed s) eqn:C; [|repeat split; assumption].
    apply Nat.leb_le in C. repeat split; simpl; auto.
    intros p I E D. apply in_in_remove; auto. intros ->. lia.
  - repeat split; simpl; auto.
    intros p I E C. specialize (L p I). lia.
Qed.

Theorem each_id_opens_once : forall l, NoDup (opened (after l)).
Proof.
  intros l. unfold after. assert (H : sound none) by (repeat split; [constructor|intros p []|intros p []]).
  revert H. generalize none. induction l as [|e l IH]; simpl; intros s H; [apply H|].
  apply IH, sound_next, H.
Qed.

(* A queue that forgets ids of open versions opens an id twice. *)
Example a_queue_that_forgets_opens_twice :
  let forgets s p := Tables (life s) (begun s) (closed s) (remove equal p (kept s)) (opened s) in
  let s := forgets (next (next none Begins) (Recorded 1 7)) (0, 1, 7) in
  opened (next s (Recorded 1 7)) = [(0, 1, 7); (0, 1, 7)].
Proof. reflexivity. Qed.
