(* Two worlds: the same history, and rewards that differ in a unit. Everything public is equal in both, and the loss is
   the number of changed rewards that are released. *)
Require Import Sums Laplace Transcripts Machine.

Definition count {A} (f : A -> bool) (l : list A) := length (filter f l).

Section Worlds.
  Variable scale : R.                         (* of the noise *)
  Variables bound grid : Z.                   (* of the L1 norm of a row, and of a reward *)
  Variable dim : nat.                         (* coordinates of a release *)
  Variable clicks : option nat.               (* max_clicks *)
  Variable arrange : nat -> list nat -> list nat. (* which clicks of a request are kept: by a coin, in any way *)

  Definition limited := match clicks with Some _ => true | None => false end.

  Notation norm := (norm dim).
  Notation fit := (fit dim bound). (* rows and rewards out of range do not enter a sum *)
  Definition reward (v : option Z) : Z := match v with Some x => Z.max 0 (Z.min grid x) | None => 0 end.

  (* A function maps the grid into it: a value out of range does not enter a sum. *)
  Definition apply (f : function) (x : Z) : Z :=
    match f with Some table => Z.max 0 (Z.min grid (nth (Z.to_nat x) table 0%Z)) | None => x end.

  Definition row {V} (i : item V) := match at_stage i with Placed _ u _ => fit u | _ => [] end.
  Definition counts {V} (i : item V) := match at_stage i with Placed _ _ f => f | _ => None end.
  Definition part_of_sum j (i : item (option Z)) := (nth j (row i) 0 * apply (counts i) (reward (value i)))%Z.
  Definition sum_of j l := fold_right (fun i s => (part_of_sum j i + s)%Z) 0%Z l.
  Definition sums (l : list (item (option Z))) := map (fun j => sum_of j l) (seq 0 dim).

  (* At most c rewards of a request are kept, whichever `arrange` puts first. *)
  Definition clicked (vs : list (option Z)) :=
    filter (fun j => negb (reward (nth j vs None) =? 0)%Z) (seq 0 (length vs)).
  Definition keep c coin vs :=
    let kept := firstn c (arrange coin (clicked vs)) in
    map (fun j => if existsb (Nat.eqb j) kept then nth j vs None else None) (seq 0 (length vs)).
  Definition limit_one coin vs := match clicks with Some c => keep c coin vs | None => vs end.

  (* A report sets what is held, to any value. Whoever reports knows all reports before: so the first reward counts, or a
     part is added to the sum. Silence is None. *)
  Definition world (left : bool) : values (option Z) :=
    Values None (fun a b _ => if left then a else b) limit_one.
  Definition pair : values (option Z * option Z) :=
    Values (None, None) (fun a b _ => (a, b))
      (fun coin vs => combine (limit_one coin (map fst vs)) (limit_one coin (map snd vs))).

  Definition sums_of_release {V} (ops : values V) (f : item V -> item (option Z)) (past : history) (m : move) : option (list Z) :=
    option_map (fun l => sums (map f l)) (released (run limited ops past) m).
  Definition released_sums left := sums_of_release (world left) (fun i => i).

  Variable scheduler : history -> move -> R.  (* the probability of the next move *)

  Definition answers := answered scale released_sums.
  Definition played := chosen scheduler.
  Definition transcript := transcript_of scale released_sums scheduler.

  (* Both worlds are projections of one machine that knows the values of both. *)
  Lemma limit_length coin vs : length (limit_one coin vs) = length vs.
  Proof. unfold limit_one, keep. destruct clicks; [rewrite map_length, seq_length|]; reflexivity. Qed.

  Lemma map_combine {A B} (l : list A) : forall m : list B, length l = length m ->
    map fst (combine l m) = l /\ map snd (combine l m) = m.
  Proof.
    induction l; intros [|b m] E; try discriminate; simpl; [auto|]. injection E as E.
    destruct (IHl m E) as [-> ->]. auto.
  Qed.

  Lemma left_natural : natural fst pair (world true).
  Proof.
    repeat split. intros c l. simpl. apply map_combine. rewrite !limit_length, !map_length. reflexivity.
  Qed.

  Lemma right_natural : natural snd pair (world false).
  Proof.
    repeat split. intros c l. simpl. apply map_combine. rewrite !limit_length, !map_length. reflexivity.
  Qed.

  (* Noninterference: counts, sizes, lengths, and which rewards are where are equal in both worlds. *)
  Theorem control_is_equal h : map_state (fun _ => tt) (run limited (world true) h) =
                               map_state (fun _ => tt) (run limited (world false) h).
  Proof.
    pose (unit := Values tt (fun _ _ _ => tt) (fun _ (vs : list unit) => vs)).
    assert (N : forall left, natural (fun _ : option Z => tt) (world left) unit).
    { intros left. repeat split. intros c l. simpl. pose proof (limit_length c l) as L. revert l L.
      generalize (limit_one c). intros g l L. generalize dependent (g l). induction l; intros [|x m] L; try discriminate; simpl; auto.
      f_equal. apply IHl. injection L; auto. }
    rewrite <- !(run_natural limited (fun _ => tt) _ unit (N _)). reflexivity.
  Qed.

  Definition differs (i : item (option Z * option Z)) := negb (reward (fst (value i)) =? reward (snd (value i)))%Z.

  (* The number of changed rewards that are released. *)
  Fixpoint changed (h : history) : nat :=
    match h with
    | [] => O
    | e :: past =>
      (changed past + match released (run limited pair past) (fst e) with Some l => count differs l | None => O end)%nat
    end.

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis bound_is_nonneg : (0 <= bound)%Z.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.

  (* The loss of one reward. *)
  Definition epsilon := IZR (bound * grid) / scale.

  Lemma reward_range v : (0 <= reward v <= grid)%Z.
  Proof. unfold reward. destruct v; lia. Qed.

  Lemma apply_range f x : (0 <= x <= grid)%Z -> (0 <= apply f x <= grid)%Z.
  Proof. unfold apply. destruct f; lia. Qed.

  Lemma distance_add (a b s t : nat -> Z) js :
    (distance (map (fun j => (a j + s j)%Z) js) (map (fun j => (b j + t j)%Z) js) <=
     distance (map a js) (map b js) + distance (map s js) (map t js))%Z.
  Proof. induction js; simpl; lia. Qed.

  (* What one reward moves is at most bound * grid; an equal one moves nothing. *)
  Lemma sums_distance (l : list (item (option Z * option Z))) :
    (distance (sums (map (map_item fst) l)) (sums (map (map_item snd) l)) <= bound * grid * Z.of_nat (count differs l))%Z.
  Proof.
    unfold sums. induction l as [|i l IH].
    - simpl. induction (seq 0 dim); simpl; lia.
    - simpl map. unfold sum_of at 1 2. simpl fold_right.
      eapply Z.le_trans; [apply (distance_add (fun j => part_of_sum j (map_item fst i)) (fun j => part_of_sum j (map_item snd i))
        (fun j => sum_of j (map (map_item fst) l)) (fun j => sum_of j (map (map_item snd) l)))|].
      pose (x := apply (counts i) (reward (fst (value i)))). pose (y := apply (counts i) (reward (snd (value i)))).
      assert (D : (distance (map (fun j => part_of_sum j (map_item fst i)) (seq 0 dim))
                   (map (fun j => part_of_sum j (map_item snd i)) (seq 0 dim)) <= norm (row i) * Z.abs (x - y))%Z).
      { unfold norm. clear IH. induction (seq 0 dim) as [|j js IHj]; [simpl; lia|]. cbn [map distance fold_right].
        replace (part_of_sum j (map_item fst i) - part_of_sum j (map_item snd i))%Z with (nth j (row i) 0 * (x - y))%Z
          by (change (nth j (row i) 0 * (x - y) = nth j (row i) 0 * x - nth j (row i) 0 * y)%Z; ring).
        rewrite Z.abs_mul, Z.mul_add_distr_r. lia. }
      assert (N : (norm (row i) <= bound)%Z).
      { unfold row. destruct (at_stage i); try (apply norm_fit; assumption); pose proof (norm_fit dim bound bound_is_nonneg []); unfold fit in *;
          destruct (norm [] <=? bound)%Z; lia. }
      pose proof (apply_range (counts i) _ (reward_range (fst (value i)))).
      pose proof (apply_range (counts i) _ (reward_range (snd (value i)))). fold x in H. fold y in H0.
      assert (0 <= norm (row i))%Z by (unfold norm; clear; induction (seq 0 dim); cbn [fold_right]; lia).
      unfold count in *. simpl. unfold differs at 1.
      destruct (reward (fst (value i)) =? reward (snd (value i)))%Z eqn:E; simpl negb; cbv iota.
      + apply Z.eqb_eq in E. assert (x = y) as F by (unfold x, y; rewrite E; reflexivity). rewrite F in D. nia.
      + simpl length. assert (norm (row i) * Z.abs (x - y) <= bound * grid)%Z by nia. nia.
  Qed.

  Lemma told_left past m : released_sums true past m = sums_of_release pair (map_item fst) past m.
  Proof.
    unfold released_sums, sums_of_release. rewrite (run_natural limited fst pair (world true) left_natural past).
    unfold released. destruct m; try reflexivity. simpl. rewrite filter_map, map_map. reflexivity.
  Qed.

  Lemma told_right past m : released_sums false past m = sums_of_release pair (map_item snd) past m.
  Proof.
    unfold released_sums, sums_of_release. rewrite (run_natural limited snd pair (world false) right_natural past).
    unfold released. destruct m; try reflexivity. simpl. rewrite filter_map, map_map. reflexivity.
  Qed.

  Lemma worlds_are_alike past m : alike (released_sums true past m) (released_sums false past m).
  Proof.
    rewrite told_left, told_right. unfold sums_of_release. destruct (released _ m); simpl; [|exact I].
    unfold sums. rewrite !map_length. reflexivity.
  Qed.

  Lemma gaps_of_changed h : (gaps released_sums h <= bound * grid * Z.of_nat (changed h))%Z.
  Proof.
    induction h as [|e past IH]; cbn [gaps changed]; [simpl; lia|]. rewrite told_left, told_right. unfold sums_of_release.
    destruct (released (run limited pair past) (fst e)) as [l|]; cbn [option_map gap]; [|rewrite Nat.add_0_r, Z.add_0_r; exact IH].
    pose proof (sums_distance l). rewrite Nat2Z.inj_add, Z.mul_add_distr_l. lia.
  Qed.

  Lemma loss_of_gap h : IZR (gaps released_sums h) / scale <= INR (changed h) * epsilon.
  Proof.
    unfold epsilon, Rdiv. rewrite <- Rmult_assoc. apply Rmult_le_compat_r; [left; apply Rinv_0_lt_compat; assumption|].
    rewrite INR_IZR_INZ, <- mult_IZR. apply IZR_le. pose proof (gaps_of_changed h). lia.
  Qed.

  Lemma answers_ratio h :
    answers true h <= exp (INR (changed h) * epsilon) * answers false h /\
    answers false h <= exp (INR (changed h) * epsilon) * answers true h.
  Proof.
    destruct (answered_ratio scale released_sums scale_is_positive worlds_are_alike h) as [L R].
    assert (exp (IZR (gaps released_sums h) / scale) <= exp (INR (changed h) * epsilon)) as E
      by (destruct (loss_of_gap h) as [K| ->]; [left; apply exp_increasing; exact K|right; reflexivity]).
    pose proof (answered_nonneg scale released_sums scale_is_positive true h).
    pose proof (answered_nonneg scale released_sums scale_is_positive false h).
    split; [apply Rle_trans with (1 := L)|apply Rle_trans with (1 := R)]; apply Rmult_le_compat_r; assumption.
  Qed.

  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).

  Theorem transcript_is_a_distribution left n : subprobability (fun _ => True) (transcript left n).
  Proof. apply transcripts_are_a_distribution; auto using move_dec. Qed.

  (* If no possible history releases more than k changed rewards, the loss is k epsilon. *)
  Theorem loss_of_changed k : (forall h, 0 < played h -> (changed h <= k)%nat) ->
    forall n, private (INR k * epsilon) (transcript true n) (transcript false n).
  Proof.
    intros H. apply loss_of_gaps; auto using worlds_are_alike. intros h P. unfold epsilon, Rdiv.
    rewrite <- Rmult_assoc, Rmult_assoc, Rinv_l, Rmult_1_r, INR_IZR_INZ, <- mult_IZR by lra. apply IZR_le.
    pose proof (gaps_of_changed h). specialize (H h P). assert (0 <= bound * grid)%Z by nia.
    assert (bound * grid * Z.of_nat (changed h) <= bound * grid * Z.of_nat k)%Z by (apply Z.mul_le_mono_nonneg_l; lia). lia.
  Qed.
End Worlds.
