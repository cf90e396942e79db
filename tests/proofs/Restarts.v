(* Periods of users across restarts (src/users.rs). A handle that was ever saved learns only in periods that its newest
   snapshot counts, and a restored handle begins the period after those. Then all lives together learn in at most as many
   periods as the last one counts, whenever the others ended. *)
Require Import Sums.

Record lives := Lives
  { life : nat; period : nat;                    (* of the life that runs *)
    saved : option nat;                          (* the periods that the newest snapshot counts *)
    learned_in : list (nat * nat) }.             (* lives and periods, once each *)

Inductive event := Learn | NextPeriod | Save | Restart.

Definition may_learn (s : lives) := match saved s with None => true | Some counted => period s <=? counted end.

Definition pair_dec (x y : nat * nat) : {x = y} + {x <> y}.
Proof. repeat decide equality. Defined.

(* A restart without a snapshot makes another handle, with a budget of its own. *)
Definition next (s : lives) (e : event) : lives :=
  match e with
  | Learn =>
    if may_learn s then
      if in_dec pair_dec (life s, period s) (learned_in s) then s
      else Lives (life s) (period s) (saved s) ((life s, period s) :: learned_in s)
    else s
  | NextPeriod => Lives (life s) (S (period s)) (saved s) (learned_in s)
  | Save => Lives (life s) (period s) (Some (period s)) (learned_in s)
  | Restart => match saved s with Some counted => Lives (S (life s)) (S counted) (saved s) (learned_in s) | None => s end
  end.

Definition first := Lives 0 1 None [].
Definition after (events : list event) : lives := fold_left next events first.

Definition in_order (s : lives) :=
  NoDup (map snd (learned_in s)) /\
  (forall l p, In (l, p) (learned_in s) -> (1 <= p <= period s)%nat /\ (l <> life s -> p < period s)%nat) /\
  (forall c, saved s = Some c -> (c <= period s)%nat /\ forall l p, In (l, p) (learned_in s) -> (p <= c)%nat) /\
  (1 <= period s)%nat.

Lemma in_order_next s e : in_order s -> in_order (next s e).
Proof.
  intros [D [P [C one]]]. destruct e; simpl.
  - destruct (may_learn s) eqn:M; [|repeat split; auto; try apply (P l p H); apply (C c H)].
    destruct (in_dec _ _ _) as [I|I]; [repeat split; auto; try apply (P l p H); apply (C c H)|].
    assert (N : ~ In (period s) (map snd (learned_in s))).
    { intros H. apply in_map_iff in H as [[l p] [E H]]. simpl in E. subst p. destruct (P l _ H) as [_ Q].
      destruct (Nat.eq_dec l (life s)) as [->|Ne]; [contradiction|]. specialize (Q Ne). lia. }
    split; [simpl; constructor; assumption|]. split; [|split]; simpl; [| |exact one].
    + intros l p [E|H]; [injection E as <- <-; split; [lia|congruence]|apply P, H].
    + intros c E. destruct (C c E) as [A B]. split; [exact A|]. intros l p [F|H]; [|apply (B l p H)].
      injection F as <- <-. unfold may_learn in M. rewrite E in M. apply Nat.leb_le, M.
  - split; [exact D|]. split; [|split]; simpl; [| |lia].
    + intros l p H. destruct (P l p H). split; lia.
    + intros c E. destruct (C c E) as [A B]. split; [lia|exact B].
  - split; [exact D|]. split; [exact P|]. split; [|exact one]. simpl. intros c E. injection E as <-. split; [lia|].
    intros l p H. apply (P l p H).
  - destruct (saved s) as [c|] eqn:E.
    + destruct (C c eq_refl) as [A B]. split; [exact D|]. split; [|split]; simpl; [| |lia].
      * intros l p H. destruct (P l p H). specialize (B l p H). lia.
      * intros x F. injection F as <-. split; [lia|exact B].
    + split; [exact D|]. split; [exact P|]. split; [|exact one]. intros x F. congruence.
Qed.

Theorem no_period_is_forgotten events : (length (learned_in (after events)) <= period (after events))%nat.
Proof.
  assert (O : in_order (after events)).
  { unfold after. assert (F : in_order first).
    { unfold in_order, first. simpl. split; [constructor|]. split; [tauto|]. split; [discriminate|lia]. }
    revert F. generalize first. induction events as [|e events IH]; intros s F; simpl; [exact F|]. apply IH, in_order_next, F. }
  destruct O as [D [P _]]. rewrite <- (map_length snd), <- (seq_length (period (after events)) 1).
  apply NoDup_incl_length; [exact D|]. intros p H. apply in_map_iff in H as [[l q] [E H]]. simpl in E. subst q.
  apply in_seq. destruct (P l p H). lia.
Qed.

(* It is false if a handle learns in periods that no snapshot counts. *)
Definition forgetful (s : lives) (e : event) : lives := next (Lives (life s) (period s)
  (match e with Learn => None | _ => saved s end) (learned_in s)) e.

Definition keep_saved (s t : lives) := Lives (life t) (period t) (match saved t with None => saved s | x => x end) (learned_in t).

Example learning_before_saving_forgets : exists events,
  let s := fold_left (fun s e => keep_saved s (forgetful s e)) events first in (length (learned_in s) > period s)%nat.
Proof. exists [Learn; Save; NextPeriod; Learn; Restart; Learn]. simpl. lia. Qed.
