(* Composition. Handles that see the same person add their losses up (dpb_budget), also if an adversary interleaves them
   and chooses what to ask one by what the others published. Handles that do not see the person add nothing (parallel
   composition). Group privacy of an (e, delta). *)
Require Import Sums Laplace Transcripts Machine Worlds Once Unit.

(* A handle, with its own noise and unit. `reports` says how many of the person's rewards it may learn from. *)
Record handle := Handle
  { scale : R; loss : R; bound : Z; grid : Z; dim : nat; clicks : option nat; arrange : nat -> list nat -> list nat;
    mine : name -> bool; reports : nat }.

Section Budget.
  Variable handles : list handle.
  Notation joint := (list (nat * event)).        (* an event of a handle by its number; the newest first *)
  Variable scheduler : joint -> nat * move -> R.

  Definition of_handle (i : nat) (h : joint) : history := map snd (filter (fun e => fst e =? i) h).
  Definition answer left (past : joint) (e : nat * event) : R :=
    match nth_error handles (fst e) with
    | Some a => told (scale a) (released_sums (bound a) (grid a) (dim a) (clicks a) (arrange a) left
        (of_handle (fst e) past) (fst (snd e))) (snd (snd e))
    | None => told 1 None (snd (snd e))
    end.
  Definition kernel left (past : joint) (e : nat * event) : R := scheduler past (fst e, fst (snd e)) * answer left past e.
  Definition transcript left n := chain_of (kernel left) n.
  Notation possible h := (forall left, 0 < chain (kernel left) h).

  Hypothesis scales_are_positive : forall a, In a handles -> 0 < scale a.
  Hypothesis bounds_are_nonneg : forall a, In a handles -> (0 <= bound a)%Z /\ (0 <= grid a)%Z.
  Hypothesis noise_is_large_enough : forall a, In a handles -> IZR (bound a * grid a) <= loss a * scale a.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_the_unit_differs : forall past i a l n x y, nth_error handles i = Some a ->
    0 < scheduler past (i, Arrive l n x y) -> mine a n = true \/ x = y.
  Hypothesis whole_requests : forall a, In a handles -> forall n m, user n = user m -> request n = request m -> mine a n = mine a m.
  (* What Theorems P, U, S and M count, of each handle. *)
  Hypothesis each_handle_counts : forall h i a, nth_error handles i = Some a -> chain (kernel true) h > 0 \/ chain (kernel false) h > 0 ->
    (decided (grid a) (clicks a) (arrange a) (mine a) (of_handle i h) + copied (grid a) (clicks a) (arrange a) (mine a) (of_handle i h) <= reports a)%nat.

  Definition spent := fold_right (fun a s => INR (reports a) * loss a + s) 0 handles.

  Lemma in_handles i a : nth_error handles i = Some a -> In a handles.
  Proof. apply nth_error_In. Qed.

  Lemma answer_nonneg left past e : 0 <= answer left past e.
  Proof.
    unfold answer. destruct (nth_error handles (fst e)) eqn:N; apply told_nonneg; [|lra].
    apply scales_are_positive. eapply in_handles; eauto.
  Qed.

  Lemma kernel_is_a_distribution left past : subprobability (fun _ => True) (kernel left past).
  Proof.
    assert (dec : forall x y : nat * move, {x = y} + {x <> y}).
    { intros [i m] [j n]. destruct (Nat.eq_dec i j), (move_dec m n); [left; congruence|right; congruence..]. }
    assert (A : forall im : nat * move, subprobability (fun _ : list Z => True) (fun y => answer left past (fst im, (snd im, y)))).
    { intros [i m]. simpl. unfold answer. simpl. destruct (nth_error handles i) as [a|] eqn:N.
      - apply told_subprobability, scales_are_positive. eapply in_handles; eauto.
      - apply (told_subprobability 1 Rlt_0_1 None). }
    pose proof (subprobability_pair dec (fun _ => True) (fun _ _ => True) (scheduler past)
      (fun im y => answer left past (fst im, (snd im, y))) (scheduler_is_a_distribution past) (fun im _ => A im)
      (fun im y => answer_nonneg left past (fst im, (snd im, y)))) as Q.
    apply (subprobability_map (fun e : nat * event => ((fst e, fst (snd e)), snd (snd e))) _ (fun _ => True)) in Q.
    - split; [intros e; apply Rmult_le_pos; [apply scheduler_is_a_distribution|apply answer_nonneg]|].
      intros l P. apply Rle_trans with (2 := proj2 Q l P). apply total_le. intros [i [m y]] _. apply Rle_refl.
    - simpl. auto.
    - intros [i [m y]] [j [n z]] _ _ H. simpl in H. congruence.
  Qed.

  Fixpoint answers left (h : joint) : R := match h with [] => 1 | e :: past => answers left past * answer left past e end.
  Fixpoint played (h : joint) : R := match h with [] => 1 | e :: past => played past * scheduler past (fst e, fst (snd e)) end.

  Lemma chain_is_played left h : chain (kernel left) h = played h * answers left h.
  Proof. induction h as [|e past IH]; simpl; [ring|]. rewrite IH. unfold kernel. ring. Qed.

  Lemma answers_nonneg left h : 0 <= answers left h.
  Proof. induction h; simpl; [lra|]. apply Rmult_le_pos; [assumption|apply answer_nonneg]. Qed.

  Lemma played_nonneg h : 0 <= played h.
  Proof. induction h; simpl; [lra|]. apply Rmult_le_pos; [assumption|apply scheduler_is_a_distribution]. Qed.

  (* The answers of all handles together are the product of each one's. *)
  Definition answers_of left i (h : joint) : R :=
    match nth_error handles i with
    | Some a => Worlds.answers (scale a) (bound a) (grid a) (dim a) (clicks a) (arrange a) left (of_handle i h)
    | None => 1
    end.
  Fixpoint strangers (h : joint) : R :=
    match h with
    | [] => 1
    | e :: past => strangers past * match nth_error handles (fst e) with Some _ => 1 | None => told 1 None (snd (snd e)) end
    end.
  Definition product (f : nat -> R) (is : list nat) : R := fold_right (fun i x => f i * x) 1 is.

  Lemma product_update f g is j : NoDup is -> In j is -> (forall i, i <> j -> g i = f i) -> forall c, g j = f j * c -> product g is = product f is * c.
  Proof.
    intros D I E c C. induction D as [|i is N D IH]; [destruct I|]. simpl. destruct (Nat.eq_dec i j) as [->|Ne].
    - rewrite C. assert (product g is = product f is) as ->; [|ring].
      clear - E N. induction is as [|i is IH]; simpl; [reflexivity|]. rewrite IH by (intro; apply N; right; assumption).
      rewrite E; [reflexivity|]. intros ->. apply N. left. reflexivity.
    - rewrite E by assumption. rewrite IH; [ring|]. destruct I as [->|I]; [congruence|exact I].
  Qed.

  Lemma answers_factor left h : answers left h = strangers h * product (fun i => answers_of left i h) (seq 0 (length handles)).
  Proof.
    induction h as [|e past IH].
    - simpl. assert (forall is, product (fun i => answers_of left i []) is = 1) as ->; [|ring].
      induction is as [|i is IH]; simpl; [reflexivity|]. rewrite IH. unfold answers_of. destruct (nth_error handles i); simpl; ring.
    - cbn [answers strangers]. rewrite IH. destruct (nth_error handles (fst e)) as [a|] eqn:N.
      + rewrite (product_update (fun i => answers_of left i past) (fun i => answers_of left i (e :: past)) _ (fst e)) with (c := answer left past e).
        * ring.
        * apply seq_NoDup.
        * apply in_seq. assert (fst e < length handles)%nat by (apply nth_error_Some; congruence). lia.
        * intros i Ne. unfold answers_of, of_handle. simpl. assert (fst e =? i = false) as -> by (apply Nat.eqb_neq; congruence). reflexivity.
        * unfold answers_of, Worlds.answers, answer. rewrite N. unfold of_handle at 1. simpl. rewrite Nat.eqb_refl. simpl. reflexivity.
      + assert (product (fun i => answers_of left i (e :: past)) (seq 0 (length handles)) = product (fun i => answers_of left i past) (seq 0 (length handles))) as ->.
        { assert (forall is, product (fun i => answers_of left i (e :: past)) is = product (fun i => answers_of left i past) is); [|auto].
          induction is as [|i is IHis]; simpl; [reflexivity|]. rewrite IHis. f_equal. unfold answers_of.
          destruct (nth_error handles i) eqn:M; [|reflexivity]. unfold of_handle. simpl.
          assert (fst e =? i = false) as -> by (apply Nat.eqb_neq; intros E; rewrite E in N; congruence). reflexivity. }
        unfold answer. rewrite N. ring.
  Qed.

  Lemma adjacent_of_handle h i a : nth_error handles i = Some a -> 0 < played h -> adjacent (mine a) (of_handle i h).
  Proof.
    intros N. induction h as [|[j [m y]] past IH]; intros P; [exact I|]. simpl in P.
    assert (0 < played past /\ 0 < scheduler past (j, m)) as [Q E].
    { pose proof (played_nonneg past). pose proof (proj1 (scheduler_is_a_distribution past) (j, m)).
      destruct H as [A|A]; [|rewrite <- A in P; lra]. destruct H0 as [B|B]; [auto|rewrite <- B in P; lra]. }
    specialize (IH Q). unfold of_handle. simpl. destruct (j =? i) eqn:J; [|exact IH]. simpl. split; [exact IH|].
    apply Nat.eqb_eq in J. subst j. destruct m; try exact I. apply (only_the_unit_differs past i a l); assumption.
  Qed.

  Lemma strangers_nonneg h : 0 <= strangers h.
  Proof. induction h; simpl; [lra|]. apply Rmult_le_pos; [assumption|]. destruct (nth_error _ _); [lra|apply (told_nonneg 1 Rlt_0_1 None)]. Qed.

  Lemma product_ratio (f g : nat -> R) (c : nat -> R) is : (forall i, In i is -> 0 <= f i /\ 0 <= g i /\ f i <= exp (c i) * g i) ->
    0 <= product f is /\ 0 <= product g is /\ product f is <= exp (fold_right (fun i x => c i + x) 0 is) * product g is.
  Proof.
    induction is as [|i is IH]; intros H; simpl.
    - rewrite exp_0. lra.
    - destruct (H i (or_introl eq_refl)) as [A [B C]]. destruct IH as [D [E F]]; [intros; apply H; right; assumption|].
      split; [apply Rmult_le_pos; assumption|]. split; [apply Rmult_le_pos; assumption|]. rewrite exp_plus.
      replace (exp (c i) * exp (fold_right (fun i x => c i + x) 0 is) * (g i * product g is))
        with ((exp (c i) * g i) * (exp (fold_right (fun i x => c i + x) 0 is) * product g is)) by ring.
      apply Rmult_le_compat; assumption.
  Qed.

  (* All handles together lose at most the sum over handles of (rewards) * (loss of one). *)
  Theorem losses_add_up n : private spent (transcript true n) (transcript false n).
  Proof.
    pose (c := fun i => match nth_error handles i with Some a => INR (reports a) * loss a | None => 0 end).
    assert (Sp : fold_right (fun i x => c i + x) 0 (seq 0 (length handles)) = spent).
    { unfold spent, c. clear.
      assert (G : forall hs k, fold_right (fun i x => match nth_error hs (i - k) with Some a => INR (reports a) * loss a | None => 0 end + x) 0 (seq k (length hs)) =
        fold_right (fun a s => INR (reports a) * loss a + s) 0 hs).
      { induction hs as [|a hs IH]; intros k; simpl; [reflexivity|]. rewrite Nat.sub_diag. simpl. f_equal. rewrite <- (IH (S k)).
        assert (E : forall is, (forall i, In i is -> (k < i)%nat) ->
          fold_right (fun i x => match nth_error (a :: hs) (i - k) with Some a => INR (reports a) * loss a | None => 0 end + x) 0 is =
          fold_right (fun i x => match nth_error hs (i - S k) with Some a => INR (reports a) * loss a | None => 0 end + x) 0 is).
        { induction is as [|i is IHis]; intros L; simpl fold_right; [reflexivity|]. rewrite IHis by (intros; apply L; right; assumption).
          specialize (L i (or_introl eq_refl)). replace (i - k)%nat with (S (i - S k)) by lia. reflexivity. }
        apply E. intros i I. apply in_seq in I. lia. }
      specialize (G handles O). rewrite <- G. clear. induction (seq 0 (length handles)); simpl; [reflexivity|].
      rewrite IHl, Nat.sub_0_r. reflexivity. }
    assert (R : forall left h, 0 < chain (kernel left) h -> forall i, In i (seq 0 (length handles)) ->
      0 <= answers_of true i h /\ 0 <= answers_of false i h /\
      answers_of true i h <= exp (c i) * answers_of false i h /\ answers_of false i h <= exp (c i) * answers_of true i h).
    { intros left h P i I. unfold answers_of, c. destruct (nth_error handles i) as [a|] eqn:N; [|rewrite exp_0; lra].
      pose proof (in_handles i a N) as J. pose proof (scales_are_positive a J) as Sc. destruct (bounds_are_nonneg a J) as [B G].
      assert (0 < played h) as Pl.
      { rewrite chain_is_played in P. pose proof (played_nonneg h) as [Q|Q]; [exact Q|]. rewrite <- Q in P. lra. }
      pose proof (changed_at_most_decided (grid a) (dim a) (clicks a) (arrange a) (mine a) (fun _ => whole_requests a J) _ (adjacent_of_handle h i a N Pl)) as K.
      assert (decided (grid a) (clicks a) (arrange a) (mine a) (of_handle i h) + copied (grid a) (clicks a) (arrange a) (mine a) (of_handle i h) <= reports a)%nat as K'
        by (apply each_handle_counts; [exact N|destruct left; auto]).
      pose proof (answers_ratio (scale a) (bound a) (grid a) (dim a) (clicks a) (arrange a) Sc B G (of_handle i h)) as [L1 L2].
      assert (E : exp (INR (changed (grid a) (clicks a) (arrange a) (of_handle i h)) * epsilon (scale a) (bound a) (grid a)) <= exp (INR (reports a) * loss a)).
      { assert (E1 : epsilon (scale a) (bound a) (grid a) <= loss a).
        { unfold epsilon. apply Rmult_le_reg_r with (scale a); [exact Sc|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra.
          pose proof (noise_is_large_enough a J). lra. }
        assert (E0 : 0 <= epsilon (scale a) (bound a) (grid a)).
        { unfold epsilon, Rdiv. apply Rmult_le_pos; [apply IZR_le; nia|]. left. apply Rinv_0_lt_compat. exact Sc. }
        assert (INR (changed (grid a) (clicks a) (arrange a) (of_handle i h)) * epsilon (scale a) (bound a) (grid a) <= INR (reports a) * loss a) as [T| ->].
        - apply Rmult_le_compat; [apply pos_INR|exact E0|apply le_INR; lia|exact E1].
        - left. apply exp_increasing. exact T.
        - right. reflexivity. }
      pose proof (answered_nonneg (scale a) (released_sums (bound a) (grid a) (dim a) (clicks a) (arrange a)) Sc true (of_handle i h)).
      pose proof (answered_nonneg (scale a) (released_sums (bound a) (grid a) (dim a) (clicks a) (arrange a)) Sc false (of_handle i h)).
      repeat split; try assumption.
      - apply Rle_trans with (1 := L1). apply Rmult_le_compat_r; assumption.
      - apply Rle_trans with (1 := L2). apply Rmult_le_compat_r; assumption. }
    assert (T : forall left h, 0 < chain (kernel left) h ->
      chain (kernel true) h <= exp spent * chain (kernel false) h /\ chain (kernel false) h <= exp spent * chain (kernel true) h).
    { intros left h P. specialize (R left h P). rewrite !chain_is_played, !answers_factor. rewrite <- Sp.
      destruct (product_ratio (fun i => answers_of true i h) (fun i => answers_of false i h) c (seq 0 (length handles))) as [A [B D]];
        [intros i I; destruct (R i I) as [? [? [? ?]]]; auto|].
      destruct (product_ratio (fun i => answers_of false i h) (fun i => answers_of true i h) c (seq 0 (length handles))) as [_ [_ D']];
        [intros i I; destruct (R i I) as [? [? [? ?]]]; auto|].
      pose proof (played_nonneg h). pose proof (strangers_nonneg h).
      assert (0 <= played h * strangers h) by (apply Rmult_le_pos; assumption).
      split; match goal with |- ?p * (?s * ?x) <= ?e * (?p * (?s * ?y)) =>
        replace (p * (s * x)) with (p * s * x) by ring; replace (e * (p * (s * y))) with (p * s * (e * y)) by ring end;
        apply Rmult_le_compat_l; assumption. }
    assert (N : forall left h, 0 <= chain (kernel left) h) by (intros left h; apply chain_nonneg, kernel_is_a_distribution).
    apply private_from_points; intros h; unfold transcript, chain_of; (destruct (length h =? n); [|lra]).
    - destruct (N true h) as [P|P]; [apply (T true h P)|]. rewrite <- P.
      apply Rmult_le_pos; [left; apply exp_pos|apply N].
    - destruct (N false h) as [P|P]; [apply (T false h P)|]. rewrite <- P.
      apply Rmult_le_pos; [left; apply exp_pos|apply N].
  Qed.

  (* Every set of joint transcripts has a probability. *)
  Theorem joint_transcripts_have_masses left n S : exists r, mass (transcript left n) S r /\ 0 <= r <= 1.
  Proof.
    assert (dec : forall x y : nat * event, {x = y} + {x <> y}).
    { intros [i a] [j b]. destruct (Nat.eq_dec i j), (event_dec move_dec a b); [left; congruence|right; congruence..]. }
    apply mass_exists with (T := fun _ => True); [|auto].
    apply (chain_of_subprobability dec). apply kernel_is_a_distribution.
  Qed.
End Budget.

(* Parallel composition: if only the handle number i sees the person, the sum is the loss of that handle. *)
Theorem parallel handles i a : nth_error handles i = Some a -> (forall j b, nth_error handles j = Some b -> j <> i -> reports b = O) ->
  spent handles = INR (reports a) * loss a.
Proof.
  unfold spent. revert i. induction handles as [|b hs IH]; intros [|i] N Z0; simpl in *; try discriminate.
  - injection N as ->. assert (fold_right (fun a s => INR (reports a) * loss a + s) 0 hs = 0) as ->; [|ring].
    assert (forall j b, nth_error hs j = Some b -> reports b = O) as H by (intros j b H; apply (Z0 (S j) b H); lia).
    clear - H. induction hs as [|b hs IH]; simpl; [reflexivity|]. rewrite (H O b eq_refl). simpl.
    rewrite IH; [ring|]. intros j x E. apply (H (S j) x E).
  - rewrite (Z0 O b eq_refl) by lia. simpl. rewrite (IH i N); [ring|]. intros j x E Ne. apply (Z0 (S j) x E). lia.
Qed.

(* A chain of m neighbours, each (e, delta)-close to the next: (m e, delta (1 + exp e + .. + exp ((m - 1) e))). *)
Fixpoint group_delta (e delta : R) (m : nat) : R := match m with O => 0 | S m => delta + exp e * group_delta e delta m end.

Theorem group_privacy e delta (p : nat -> R) m : 0 <= e -> (forall i, (i < m)%nat -> p i <= exp e * p (S i) + delta) ->
  p O <= exp (INR m * e) * p m + group_delta e delta m.
Proof.
  intros E. revert p. induction m as [|m IH]; intros p H.
  - simpl. rewrite Rmult_0_l, exp_0. lra.
  - specialize (IH (fun i => p (S i)) (fun i L => H (S i) (proj1 (Nat.succ_lt_mono i m) L))).
    specialize (H O (Nat.lt_0_succ m)). rewrite S_INR, Rmult_plus_distr_r, Rmult_1_l, exp_plus. simpl group_delta.
    pose proof (Rmult_le_compat_l (exp e) _ _ (Rlt_le _ _ (exp_pos e)) IH). lra.
Qed.
