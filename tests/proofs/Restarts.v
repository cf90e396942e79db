(* Periods of users across restarts (src/users.rs). An incarnation is a handle with its counters of users: one that a constructor or
   a restore made, with all successors of its state. An incarnation learns in a period when it is told that a snapshot of its own that
   counts this period is stored; one that a constructor made learns in its first period without it. A restored incarnation begins
   the period after those of the snapshot that it found. Then all incarnations together learn in at most as many periods as the
   newest one counts, whenever the others ended, even if they go on, whatever writes fail or are lost later.

   What this assumes of whoever keeps the snapshots: only the newest incarnation writes (a file has a lock, a fleet's store refuses
   the snapshots of an incarnation whose number another one has); a restart finds the last write that is not lost (Restart); and what a
   incarnation was told to be stored is not lost (Stored needs Settle, and GoBack takes only writes before that). *)
Require Import Sums.
Local Open Scope nat_scope.

Record incarnations := Incarnations
  { newest : nat;                                (* the incarnation that began last *)
    from : nat -> nat;                           (* the period in which each incarnation began *)
    period : nat -> nat;                         (* its period *)
    open_to : nat -> nat;                        (* the last period in which it may learn *)
    written : list (nat * nat);                  (* writes that may be lost, the last one first: whose, and what it counts *)
    kept : option (nat * nat);                   (* the last write that cannot be lost *)
    settled : list (nat * nat);                  (* all writes of which that was true *)
    learned_in : list (nat * nat) }.             (* incarnations and periods, once each *)

Inductive event :=
  | Learn (l : nat)
  | NextPeriod (l : nat)
  | Save
  | Settle (n : nat)                             (* the n-th write before the last one, and those before it *)
  | GoBack                                       (* the last write is lost: it failed, or a store went back *)
  | Stored (l p : nat)
  | Restart
  | Move (l : nat).                              (* the incarnation is suspended and resumed *)

Definition pair_dec (x y : nat * nat) : {x = y} + {x <> y}.
Proof. repeat decide equality. Defined.

Definition update (f : nat -> nat) (l v : nat) : nat -> nat := fun x => if x =? l then v else f x.

Definition found (s : incarnations) := match written s with x :: _ => Some x | [] => kept s end.

Definition may_learn (s : incarnations) (l : nat) := (l <=? newest s) && (period s l <=? open_to s l).

Definition learn (s : incarnations) (l : nat) :=
  if in_dec pair_dec (l, period s l) (learned_in s) then s
  else Incarnations (newest s) (from s) (period s) (open_to s) (written s) (kept s) (settled s) ((l, period s l) :: learned_in s).

Definition opened (s : incarnations) (l p : nat) :=
  Incarnations (newest s) (from s) (period s) (update (open_to s) l (max (open_to s l) p)) (written s) (kept s) (settled s)
    (learned_in s).

(* A restart without a snapshot makes another handle, with a guarantee of its own. A state has the counters, the period, and
   whether it is stored, so its successor is the same incarnation. *)
Definition next (s : incarnations) (e : event) : incarnations :=
  let n := newest s in
  match e with
  | Learn l => if may_learn s l then learn s l else s
  | NextPeriod l =>
    Incarnations n (from s) (update (period s) l (S (period s l))) (open_to s) (written s) (kept s) (settled s) (learned_in s)
  | Save =>
    Incarnations n (from s) (period s) (open_to s) ((n, period s n) :: written s) (kept s) (settled s) (learned_in s)
  | Settle i =>
    match nth_error (written s) i with
    | Some x =>
      Incarnations n (from s) (period s) (open_to s) (firstn i (written s)) (Some x) (x :: settled s) (learned_in s)
    | None => s
    end
  | GoBack => Incarnations n (from s) (period s) (open_to s) (tl (written s)) (kept s) (settled s) (learned_in s)
  | Stored l p => if in_dec pair_dec (l, p) (settled s) then opened s l p else s
  | Restart =>
    match found s with
    | Some (_, p) =>
      Incarnations (S n) (update (from s) (S n) (S p)) (update (period s) (S n) (S p)) (update (open_to s) (S n) 0) (written s)
        (kept s) (settled s) (learned_in s)
    | None => s
    end
  | Move l => s
  end.

Definition first := Incarnations 0 (fun _ => 1) (fun _ => 1) (fun _ => 1) [] None [] [].
Definition after (events : list event) : incarnations := fold_left next events first.

Record in_order (s : incarnations) : Prop := InOrder
  { grows : forall l, l <= newest s -> 1 <= from s l <= period s l /\ open_to s l <= period s l;
    apart : forall l m, l < m <= newest s -> open_to s l < from s m;
    counts : forall l c, In (l, c) (written s) \/ In (l, c) (settled s) ->
      l <= newest s /\ 1 <= c <= period s l /\ forall m, l < m <= newest s -> c < from s m;
    by_time : forall a x b, written s = a ++ x :: b -> forall y, In y b -> snd y <= snd x;
    later : forall x y, In x (written s) -> In y (settled s) -> snd y <= snd x;
    last : match kept s with Some x => In x (settled s) /\ forall y, In y (settled s) -> snd y <= snd x
                           | None => settled s = [] end;
    told : forall l, l <= newest s -> open_to s l <= 1 \/ In (l, open_to s l) (settled s);
    learned : forall l p, In (l, p) (learned_in s) -> l <= newest s /\ from s l <= p <= open_to s l;
    once : NoDup (map snd (learned_in s)) }.

Lemma update_same f l v : update f l v l = v.
Proof. unfold update. now rewrite Nat.eqb_refl. Qed.

Lemma update_other f l v x : x <> l -> update f l v x = f x.
Proof. intros H. unfold update. apply Nat.eqb_neq in H. now rewrite H. Qed.

(* No snapshot counts more periods than the newest incarnation. *)
Lemma at_most_the_newest s l c :
  in_order s -> In (l, c) (written s) \/ In (l, c) (settled s) -> c <= period s (newest s).
Proof.
  intros O H. destruct (counts s O l c H) as [A [B C]]. destruct (Nat.eq_dec l (newest s)) as [->|N]; [lia|].
  assert (Q := C (newest s)). destruct (grows s O (newest s)) as [G _]; lia.
Qed.

(* What a restart finds counts all that is told to be stored, and all writes that are not lost. *)
Lemma found_counts_all s l p :
  in_order s -> found s = Some (l, p) ->
  (In (l, p) (written s) \/ In (l, p) (settled s)) /\
  (forall y, In y (written s) \/ In y (settled s) -> snd y <= p).
Proof.
  intros O F. unfold found in F. destruct (written s) as [|x b] eqn:W.
  - assert (K := last s O). rewrite F in K. destruct K as [K1 K2]. split; [now right|].
    intros y [[]|Y]. apply (K2 y Y).
  - injection F as ->. split; [left; now left|]. intros y [[<-|Y]|Y]; [simpl; lia| |].
    + apply (by_time s O [] (l, p) b); [now rewrite W|exact Y].
    + apply (later s O (l, p) y); [rewrite W; now left|exact Y].
Qed.

Lemma in_order_learn s l : in_order s -> may_learn s l = true -> in_order (learn s l).
Proof.
  intros O M. unfold learn. destruct (in_dec _ _ _) as [I|I]; [exact O|].
  apply andb_prop in M as [M1 M2]. apply Nat.leb_le in M1, M2.
  assert (N : ~ In (period s l) (map snd (learned_in s))).
  { intros H. apply in_map_iff in H as [[m p] [E H]]. simpl in E. subst p. destruct (learned s O m _ H) as [A B].
    destruct (lt_eq_lt_dec l m) as [[Q|Q]|Q].
    - assert (X := apart s O l m). lia.
    - subst m. contradiction.
    - assert (X := apart s O m l). destruct (grows s O l M1) as [G _]. lia. }
  destruct O. constructor; simpl; auto; [|now constructor].
  intros m p [E|H]; [|auto]. injection E as <- <-. destruct (grows0 l M1). split; [exact M1|lia].
Qed.

Lemma in_order_next s e : in_order s -> in_order (next s e).
Proof.
  intros O. destruct e as [l|l| |i| |l p| |l]; simpl.
  - destruct (may_learn s l) eqn:M; [now apply in_order_learn|exact O].
  - destruct O. constructor; simpl; auto.
    + intros m H. specialize (grows0 m H). destruct (Nat.eq_dec m l) as [->|N];
        [rewrite update_same|rewrite update_other by exact N]; lia.
    + intros m c H. destruct (counts0 m c H) as [A [B C]]. split; [exact A|]. split; [|exact C].
      destruct (Nat.eq_dec m l) as [->|N]; [rewrite update_same|rewrite update_other by exact N]; lia.
  - assert (T := fun l c => at_most_the_newest s l c O). destruct O. constructor; simpl; auto.
    + intros l c [[E|H]|H]; [|apply counts0; now left|apply counts0; now right].
      injection E as <- <-. destruct (grows0 (newest s)) as [G _]; [lia|]. split; [lia|]. split; [lia|]. intros m Q. lia.
    + intros a x b E y Y. destruct a as [|z a]; simpl in E; injection E as E1 E2.
      * subst x b. simpl. destruct y as [l c]. apply (T l c). now left.
      * apply (by_time0 a x b E2 y Y).
    + intros x y [<-|X] Y; [|auto]. simpl. destruct y as [l c]. apply (T l c). now right.
  - destruct (nth_error (written s) i) as [x|] eqn:E; [|exact O].
    apply nth_error_split in E as [l1 [l2 [W L]]].
    assert (F : firstn i (written s) = l1).
    { rewrite W, <- L, firstn_app, Nat.sub_diag, firstn_all. simpl. apply app_nil_r. }
    rewrite F. assert (X : In x (written s)) by (rewrite W; apply in_elt).
    assert (I : forall y, In y l1 -> In y (written s)) by (intros y Y; rewrite W; apply in_or_app; now left).
    destruct O. constructor; simpl; auto.
    + intros l c [H|[H|H]]; [apply counts0; left; auto|subst x; apply counts0; now left|apply counts0; now right].
    + intros a z b E y Y. apply (by_time0 a z (b ++ x :: l2)); [|apply in_or_app; now left].
      rewrite W, E, <- app_assoc. reflexivity.
    + intros z y Z [<-|Y]; [|auto]. apply in_split in Z as [u [v Z]].
      apply (by_time0 u z (v ++ x :: l2)); [|apply in_elt]. rewrite W, Z, <- app_assoc. reflexivity.
    + split; [now left|]. intros y [<-|Y]; [lia|auto].
    + intros l H. destruct (told0 l H) as [Q|Q]; [now left|right; now right].
  - assert (I : forall y, In y (tl (written s)) -> In y (written s)) by (destruct (written s); simpl; auto).
    destruct O. constructor; simpl; auto.
    + intros l c [H|H]; apply counts0; auto.
    + intros a x b E y Y. destruct (written s) as [|z w]; [destruct a; discriminate|].
      simpl in E. apply (by_time0 (z :: a) x b); [now rewrite E|exact Y].
  - destruct (in_dec pair_dec (l, p) (settled s)) as [I|I]; [|exact O].
    destruct O. destruct (counts0 l p) as [A [B C]]; [now right|]. constructor; simpl; auto.
    + intros m H. specialize (grows0 m H). destruct (Nat.eq_dec m l) as [->|N];
        [rewrite update_same|rewrite update_other by exact N]; lia.
    + intros m k H. specialize (apart0 m k H). destruct (Nat.eq_dec m l) as [->|N];
        [rewrite update_same; specialize (C k H)|rewrite update_other by exact N]; lia.
    + intros m H. specialize (told0 m H). destruct (Nat.eq_dec m l) as [->|N];
        [rewrite update_same|rewrite update_other by exact N; exact told0].
      destruct (Nat.max_spec (open_to s l) p) as [[_ ->]|[_ ->]]; [now right|exact told0].
    + intros m k H. specialize (learned0 m k H). destruct (Nat.eq_dec m l) as [->|N];
        [rewrite update_same|rewrite update_other by exact N; exact learned0]. lia.
  - destruct (found s) as [[w p]|] eqn:F; [|exact O].
    destruct (found_counts_all s w p O F) as [P A]. destruct O.
    destruct (counts0 w p P) as [_ [P1 _]].
    constructor; simpl; auto.
    + intros m H. destruct (Nat.eq_dec m (S (newest s))) as [->|N]; [rewrite !update_same; lia|].
      rewrite !update_other by exact N. apply grows0. lia.
    + intros l m H. rewrite (update_other (open_to s)) by lia.
      destruct (Nat.eq_dec m (S (newest s))) as [->|N]; [rewrite update_same|rewrite update_other by exact N; apply apart0; lia].
      destruct (told0 l) as [Q|Q]; [lia|lia|]. specialize (A _ (or_intror Q)). simpl in A. lia.
    + intros l c H. destruct (counts0 l c H) as [B1 [B2 B3]]. split; [lia|]. split; [rewrite update_other by lia; exact B2|].
      intros m Q. destruct (Nat.eq_dec m (S (newest s))) as [->|N]; [rewrite update_same|rewrite update_other by exact N; apply B3; lia].
      specialize (A _ H). simpl in A. lia.
    + intros l H. destruct (Nat.eq_dec l (S (newest s))) as [->|N]; [rewrite update_same; left; lia|].
      rewrite update_other by exact N. apply told0. lia.
    + intros l q H. destruct (learned0 l q H) as [B1 B2]. rewrite !update_other by lia. split; [lia|exact B2].
  - exact O.
Qed.

Lemma in_order_first : in_order first.
Proof.
  constructor; simpl; auto; try lia; try tauto.
  - intros a x b E. destruct a; discriminate.
  - constructor.
Qed.

Theorem no_period_is_forgotten events :
  length (learned_in (after events)) <= period (after events) (newest (after events)).
Proof.
  assert (O : in_order (after events)).
  { unfold after. generalize first in_order_first. induction events as [|e events IH]; intros s F; simpl; [exact F|].
    apply IH, in_order_next, F. }
  set (s := after events) in *.
  rewrite <- (map_length snd), <- (seq_length (period s (newest s)) 1). apply NoDup_incl_length; [apply once, O|].
  intros p H. apply in_map_iff in H as [[l q] [E H]]. simpl in E. subst q. apply in_seq.
  destruct (learned s O l p H) as [A B]. destruct (grows s O l A) as [G1 G2].
  destruct (Nat.eq_dec l (newest s)) as [->|N]; [lia|].
  assert (Q := apart s O l (newest s)). destruct (grows s O (newest s)) as [G3 _]; lia.
Qed.

(* The theorem applies: a person is learned from in each of three periods, over a restart and a move, and the bound is met.
   Then an incarnation that goes on after another one has begun adds nothing. *)
Definition three_periods :=
  [Learn 0; Save; Settle 0; Stored 0 1; NextPeriod 0; Learn 0; Save; Settle 0; Stored 0 2; Move 0; Learn 0;
   Restart; Learn 1; Save; Settle 0; Stored 1 3; Learn 1; Learn 0; NextPeriod 0; Learn 0].

Example the_bound_is_met :
  length (learned_in (after three_periods)) = 3 /\ period (after three_periods) (newest (after three_periods)) = 3.
Proof. split; reflexivity. Qed.

(* With one fault each it is false. A fault is a step that some events are taken for. *)
Definition forgets (step : incarnations -> event -> incarnations) :=
  exists events, let s := fold_left step events first in length (learned_in s) > period s (newest s).

(* A snapshot that is made opens its period, and its write fails. *)
Definition snapshot_opens (s : incarnations) (e : event) :=
  match e with Save => opened (next s Save) (newest s) (period s (newest s)) | _ => next s e end.

Example a_snapshot_that_opens_forgets : forgets snapshot_opens.
Proof.
  exists [Learn 0; Save; Settle 0; NextPeriod 0; Save; GoBack; Learn 0; Restart; Save; Learn 1].
  apply Nat.ltb_lt. reflexivity.
Qed.

(* An incarnation is told that something is stored, and it is an older snapshot, or another incarnation's. *)
Definition any_stored_opens (s : incarnations) (e : event) :=
  match e with Stored l _ => match settled s with [] => s | _ => opened s l (period s l) end | _ => next s e end.

Example any_snapshot_that_opens_forgets : forgets any_stored_opens.
Proof.
  exists [Learn 0; Save; Settle 0; NextPeriod 0; Stored 0 1; Learn 0; Restart; Stored 1 1; Learn 1].
  apply Nat.ltb_lt. reflexivity.
Qed.

(* An incarnation learns in each period that it begins, as if it had been stored. *)
Definition learns_at_once (s : incarnations) (e : event) :=
  match e with NextPeriod l => opened (next s e) l (S (period s l)) | _ => next s e end.

Example learning_before_storing_forgets : forgets learns_at_once.
Proof.
  exists [Learn 0; Save; Settle 0; NextPeriod 0; Learn 0; Restart; Save; Settle 0; Stored 1 2; Learn 1].
  apply Nat.ltb_lt. reflexivity.
Qed.

(* The successor of a state takes its period for one that is stored. *)
Definition moves_open (s : incarnations) (e : event) := match e with Move l => opened s l (period s l) | _ => next s e end.

Example a_move_that_opens_forgets : forgets moves_open.
Proof.
  exists [Learn 0; Save; Settle 0; NextPeriod 0; Move 0; Learn 0; Restart; Save; Settle 0; Stored 1 2; Learn 1].
  apply Nat.ltb_lt. reflexivity.
Qed.

(* What an incarnation was told to be stored is lost: a store goes back further than it waited, or somebody restores an older file. *)
Definition loses_what_is_stored (s : incarnations) (e : event) :=
  match e, settled s with
  | GoBack, _ :: older => Incarnations (newest s) (from s) (period s) (open_to s) [] (hd_error older) older (learned_in s)
  | _, _ => next s e
  end.

Example a_store_that_goes_back_further_forgets : forgets loses_what_is_stored.
Proof.
  exists [Learn 0; Save; Settle 0; Stored 0 1; NextPeriod 0; Save; Settle 0; Stored 0 2; Learn 0; GoBack; Restart; Save;
          Settle 0; Stored 1 2; Learn 1].
  apply Nat.ltb_lt. reflexivity.
Qed.

(* An incarnation that another one has replaced still writes. (Here it does so at Move.) *)
Definition old_incarnations_write (s : incarnations) (e : event) :=
  match e with
  | Move l =>
    Incarnations (newest s) (from s) (period s) (open_to s) ((l, period s l) :: written s) (kept s) (settled s) (learned_in s)
  | _ => next s e
  end.

Example an_old_life_that_writes_forgets : forgets old_incarnations_write.
Proof.
  exists [Learn 0; Save; Settle 0; Restart; Save; Settle 0; Stored 1 2; Learn 1; NextPeriod 0; Move 0; Settle 0; Stored 0 2;
          Learn 0].
  apply Nat.ltb_lt. reflexivity.
Qed.
