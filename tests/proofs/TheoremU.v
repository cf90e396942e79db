(* Theorem U (users). Counters decide, when a decision is made, whether it is learned from; only learned ones are `Decide`
   moves. A user then has at most m of them in a period, whatever the hashes are, and p periods cost m p rewards. *)
Require Import Sums Laplace Machine Worlds Once Unit TheoremS.

Section U.
  Variable scale e : R.
  Variables bound grid : Z.
  Variable dim : nat.
  Variable clicks : option nat.
  Variable arrange : nat -> list nat -> list nat.
  Variable scheduler : history -> move -> R.
  Variable person : nat.
  Variables slots m p : nat.                     (* m is contributions_per_user *)

  Notation lim := (limited clicks).
  Notation both := (pair grid clicks arrange).
  Notation mine := (fun n => user n =? person).
  Notation possible h := (0 < played scheduler h).

  (* The sketch: rows 0 to `more`, and a column for each user, by a hash that is new in each period. *)
  Variable more : nat.
  Variable column : nat -> nat -> nat -> nat.    (* period, row, user *)

  Notation next_period := (Public 0).

  Fixpoint period (h : history) : nat :=
    match h with [] => 1%nat | ev :: past => match fst ev with next_period => S (period past) | _ => period past end end.

  Definition lowest (counters : nat -> nat -> nat) (t u : nat) :=
    fold_right (fun r low => Nat.min (counters r (column t r u)) low) (counters O (column t O u)) (seq 1 more).

  (* A decision raises the counters of its user that are lowest. *)
  Fixpoint counters (h : history) : nat -> nat -> nat :=
    match h with
    | [] => fun _ _ => O
    | ev :: past =>
      match fst ev with
      | next_period => fun _ _ => O
      | Decide _ u _ => fun r c =>
        let old := counters past r c in
        if (column (period past) r u =? c) && (old =? lowest (counters past) (period past) u) then S old else old
      | _ => counters past
      end
    end.

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis bound_is_nonneg : (0 <= bound)%Z.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.
  Hypothesis noise_is_large_enough : IZR (bound * grid) <= e * scale.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_the_unit_differs : forall past l n a b, 0 < scheduler past (Arrive l n a b) -> mine n = true \/ a = b.
  Hypothesis states_are_opened_once : opened_once grid clicks arrange scheduler.
  Hypothesis at_most_slots : forall past l u j, 0 < scheduler past (Decide l u j) -> (j <= slots)%nat.
  Hypothesis learned_by_the_counters : forall past l u j,
    0 < scheduler past (Decide l u j) -> (lowest (counters past) (period past) u < m)%nat.

  (* Periods in which anybody was learned from. Restarts.v bounds them over all restarts. *)
  Fixpoint touched (h : history) : bool :=
    match h with
    | [] => false
    | ev :: past => match fst ev with next_period => false | Decide _ _ _ => true | _ => touched past end
    end.
  Fixpoint periods (h : history) : nat :=
    match h with
    | [] => O
    | ev :: past => (periods past + match fst ev with Decide _ _ _ => if touched past then 0 else 1 | _ => 0 end)%nat
    end.
  Hypothesis at_most_p_periods : forall h, possible h -> (periods h <= p)%nat.

  (* Decisions of the person in the current period that are learned from. *)
  Fixpoint learned (h : history) : nat :=
    match h with
    | [] => O
    | ev :: past =>
      match fst ev with
      | next_period => O
      | Decide _ u _ => if u =? person then S (learned past) else learned past
      | _ => learned past
      end
    end.

  Lemma lowest_is_below f t u r : (r <= more)%nat -> (lowest f t u <= f r (column t r u))%nat.
  Proof.
    intros L. unfold lowest. destruct r as [|r].
    - induction (seq 1 more); simpl; lia.
    - assert (I : In (S r) (seq 1 more)) by (apply in_seq; lia). induction (seq 1 more) as [|x xs IH]; [destruct I|].
      simpl. destruct I as [->|I]; [lia|]. specialize (IH I). lia.
  Qed.

  Lemma below_lowest f t u k : (forall r, (r <= more)%nat -> (k <= f r (column t r u))%nat) -> (k <= lowest f t u)%nat.
  Proof.
    intros H. unfold lowest. assert (I : forall r, In r (seq 1 more) -> (r <= more)%nat) by (intros r I; apply in_seq in I; lia).
    pose proof (H O (Nat.le_0_l _)). induction (seq 1 more) as [|x xs IH]; simpl; [assumption|].
    specialize (IH (fun r h => I r (or_intror h))). specialize (H x (I x (or_introl eq_refl))). lia.
  Qed.

  (* No counter of the person is below the number of learned decisions. *)
  Lemma learned_is_counted h : forall r, (r <= more)%nat -> (learned h <= counters h r (column (period h) r person))%nat.
  Proof.
    induction h as [|ev past IH]; intros r L; [simpl; lia|]. simpl.
    destruct (fst ev) as [n|l u j| | | | | | | | | | | | | ]; try (apply IH; assumption).
    - destruct n; [lia|apply IH; assumption].
    - pose proof (below_lowest _ _ _ _ IH) as B. pose proof (IH r L).
      destruct (u =? person) eqn:E.
      + apply Nat.eqb_eq in E. subst u. rewrite Nat.eqb_refl. simpl.
        pose proof (lowest_is_below (counters past) (period past) person r L).
        destruct (_ =? lowest _ _ _) eqn:Q; [lia|]. apply Nat.eqb_neq in Q. lia.
      + destruct (_ && _); lia.
  Qed.

  Theorem at_most_m_in_a_period h : possible h -> (learned h <= m)%nat.
  Proof.
    induction h as [|ev past IH]; intros P; [simpl; lia|]. apply played_before in P as [P E]; [|assumption]. specialize (IH P).
    simpl. destruct (fst ev) as [n|l u j| | | | | | | | | | | | | ]; try assumption.
    - destruct n; [lia|assumption].
    - destruct (u =? person) eqn:Q; [|assumption]. apply Nat.eqb_eq in Q. subst u.
      pose proof (learned_by_the_counters _ _ _ _ E).
      pose proof (below_lowest _ _ _ _ (learned_is_counted past)). lia.
  Qed.

  Lemma at_most_m_p h : possible h -> (requests_of_unit grid clicks arrange mine h <= m * p)%nat.
  Proof.
    assert (A : forall h, possible h -> touched h = false -> learned h = O).
    { clear h. induction h as [|ev past IH]; intros P T; [reflexivity|]. apply played_before in P as [P _]; [|assumption].
      specialize (IH P). simpl in *. destruct (fst ev) as [[|n]|l u j| | | | | | | | | | | | | ]; auto. discriminate. }
    assert (B : forall h, possible h -> (requests_of_unit grid clicks arrange mine h + (if touched h then m else 0) <= m * periods h + learned h)%nat).
    { clear h. induction h as [|ev past IH]; intros P; [simpl; lia|]. apply played_before in P as [P E]; [|assumption].
      specialize (IH P). specialize (A past P). pose proof (at_most_m_in_a_period past P). simpl.
      destruct (fst ev) as [[|n]|l u j| | | | | | | | | | | | | ]; rewrite ?Nat.add_0_r; try lia.
      - destruct (touched past); lia.
      - destruct (touched past); [rewrite Nat.add_0_r|specialize (A eq_refl); rewrite Nat.mul_add_distr_l];
          simpl; destruct (u =? person); lia. }
    intros P. pose proof (B h P) as C. pose proof (at_most_m_in_a_period h P). pose proof (at_most_p_periods h P).
    assert (m * periods h <= m * p)%nat by (apply Nat.mul_le_mono_l; assumption).
    destruct (touched h) eqn:T; [lia|]. rewrite (A h P T) in C. lia.
  Qed.

  (* d is 1 for requests of one slot, and as in Theorem S for several. *)
  Theorem theorem_U n : private (INR (m * p * d clicks slots) * e) (transcript scale bound grid dim clicks arrange scheduler true n)
    (transcript scale bound grid dim clicks arrange scheduler false n).
  Proof.
    apply theorem_S with (mine := mine); auto using at_most_m_p.
  Qed.
End U.
