(* Two worlds: the same history, and rewards that differ in a unit. Everything public is equal in both, and the loss is
   the number of changed rewards that are released. *)
Require Import Sums Laplace Machine.

Definition count {A} (f : A -> bool) (l : list A) := length (filter f l).

Section Worlds.
  Variable scale : R.                         (* of the noise *)
  Variables bound grid : Z.                   (* of the L1 norm of a row, and of a reward *)
  Variable dim : nat.                         (* coordinates of a release *)
  Variable clicks : option nat.               (* max_clicks *)
  Variable arrange : nat -> list nat -> list nat. (* which clicks of a request are kept: by a coin, in any way *)

  Definition limited := match clicks with Some _ => true | None => false end.

  Definition norm (row : list Z) := fold_right (fun j s => (Z.abs (nth j row 0) + s)%Z) 0%Z (seq 0 dim).
  (* Rows and rewards out of range do not enter a sum. *)
  Definition fit (row : list Z) := if (norm row <=? bound)%Z then row else [].
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

  Definition response {V} (ops : values V) (f : item V -> item (option Z)) (past : history) (e : event) : R :=
    match released (run limited ops past) (fst e) with
    | Some l => noised scale (sums (map f l)) (snd e)
    | None => match snd e with [] => 1 | _ => 0 end
    end.

  (* The probability of the released numbers, given the moves. *)
  Fixpoint answers (left : bool) (h : history) : R :=
    match h with [] => 1 | e :: past => answers left past * response (world left) (fun i => i) past e end.

  Variable scheduler : history -> move -> R.  (* the probability of the next move *)

  Fixpoint played (h : history) : R := match h with [] => 1 | e :: past => played past * scheduler past (fst e) end.

  (* The probability of a transcript of n events. *)
  Definition transcript (left : bool) (n : nat) (h : history) : R :=
    if length h =? n then played h * answers left h else 0.

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

  Lemma norm_fit u : (norm (fit u) <= bound)%Z.
  Proof.
    unfold fit. destruct (norm u <=? bound)%Z eqn:E; [lia|].
    assert (norm [] = 0%Z) as ->; [|assumption].
    unfold norm. induction (seq 0 dim) as [|j js IH]; cbn [fold_right]; [reflexivity|]. rewrite IH. destruct j; reflexivity.
  Qed.

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
      { unfold row. destruct (at_stage i); try apply norm_fit; pose proof (norm_fit []); unfold fit in *;
          destruct (norm [] <=? bound)%Z; lia. }
      pose proof (apply_range (counts i) _ (reward_range (fst (value i)))).
      pose proof (apply_range (counts i) _ (reward_range (snd (value i)))). fold x in H. fold y in H0.
      assert (0 <= norm (row i))%Z by (unfold norm; clear; induction (seq 0 dim); cbn [fold_right]; lia).
      unfold count in *. simpl. unfold differs at 1.
      destruct (reward (fst (value i)) =? reward (snd (value i)))%Z eqn:E; simpl negb; cbv iota.
      + apply Z.eqb_eq in E. assert (x = y) as F by (unfold x, y; rewrite E; reflexivity). rewrite F in D. nia.
      + simpl length. assert (norm (row i) * Z.abs (x - y) <= bound * grid)%Z by nia. nia.
  Qed.

  Lemma distance_sym s : forall t, distance s t = distance t s.
  Proof. induction s; intros [|b t]; simpl; [reflexivity..|]. rewrite IHs. lia. Qed.

  Lemma noised_sums_ratio l y (n := INR (count differs l)) :
    noised scale (sums (map (map_item fst) l)) y <= exp (n * epsilon) * noised scale (sums (map (map_item snd) l)) y /\
    noised scale (sums (map (map_item snd) l)) y <= exp (n * epsilon) * noised scale (sums (map (map_item fst) l)) y.
  Proof.
    pose proof (sums_distance l) as D.
    assert (E : forall d, (d <= bound * grid * Z.of_nat (count differs l))%Z -> exp (IZR d / scale) <= exp (n * epsilon)).
    { intros d L. apply IZR_le in L. rewrite mult_IZR, <- INR_IZR_INZ in L. fold n in L.
      assert (IZR d / scale <= n * epsilon) as [K| ->]; [|left; apply exp_increasing; exact K|right; reflexivity].
      unfold epsilon, Rdiv. rewrite <- Rmult_assoc, (Rmult_comm n). apply Rmult_le_compat_r; [|exact L].
      left. apply Rinv_0_lt_compat. assumption. }
    assert (L : length (sums (map (map_item fst) l)) = length (sums (map (map_item snd) l)))
      by (unfold sums; rewrite !map_length; reflexivity).
    split; (eapply Rle_trans; [apply (noised_ratio scale scale_is_positive)|]);
      [exact L| |symmetry; exact L|]; (apply Rmult_le_compat_r; [apply noised_nonneg; assumption|]); apply E;
      [|rewrite distance_sym]; exact D.
  Qed.

  Lemma response_left past e : response (world true) (fun i => i) past e = response pair (map_item fst) past e.
  Proof.
    unfold response. rewrite (run_natural limited fst pair (world true) left_natural past).
    unfold released. destruct (fst e); try reflexivity. simpl. rewrite filter_map, map_map. reflexivity.
  Qed.

  Lemma response_right past e : response (world false) (fun i => i) past e = response pair (map_item snd) past e.
  Proof.
    unfold response. rewrite (run_natural limited snd pair (world false) right_natural past).
    unfold released. destruct (fst e); try reflexivity. simpl. rewrite filter_map, map_map. reflexivity.
  Qed.

  Lemma response_nonneg {V} (ops : values V) f past e : 0 <= response ops f past e.
  Proof. unfold response. destruct (released _ _); [apply noised_nonneg; assumption|]. destruct (snd e); lra. Qed.

  Lemma answers_nonneg left h : 0 <= answers left h.
  Proof. induction h; simpl; [lra|]. apply Rmult_le_pos; [assumption|apply response_nonneg]. Qed.

  Lemma answers_ratio h :
    answers true h <= exp (INR (changed h) * epsilon) * answers false h /\
    answers false h <= exp (INR (changed h) * epsilon) * answers true h.
  Proof.
    induction h as [|e past [L R]]; simpl.
    - rewrite Rmult_0_l, exp_0. lra.
    - rewrite response_left, response_right. unfold response.
      rewrite plus_INR, Rmult_plus_distr_r, exp_plus.
      destruct (released (run limited pair past) (fst e)) as [l|].
      + destruct (noised_sums_ratio l (snd e)) as [Nl Nr].
        pose proof (noised_nonneg scale scale_is_positive (sums (map (map_item fst) l)) (snd e)).
        pose proof (noised_nonneg scale scale_is_positive (sums (map (map_item snd) l)) (snd e)).
        pose proof (answers_nonneg true past). pose proof (answers_nonneg false past).
        split; match goal with |- _ <= ?a * ?b * (?c * ?d) => replace (a * b * (c * d)) with ((a * c) * (b * d)) by ring end;
          apply Rmult_le_compat; assumption.
      + simpl INR. rewrite Rmult_0_l, exp_0, Rmult_1_r.
        split; match goal with |- _ <= ?a * (?c * ?d) => replace (a * (c * d)) with ((a * c) * d) by ring end;
          (apply Rmult_le_compat_r; [destruct (snd e); lra|assumption]).
  Qed.

  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).

  Lemma played_nonneg h : 0 <= played h.
  Proof. induction h; simpl; [lra|]. apply Rmult_le_pos; [assumption|apply scheduler_is_a_distribution]. Qed.

  Lemma response_subprobability {V} (ops : values V) f past m :
    subprobability (fun _ => True) (fun y => response ops f past (m, y)).
  Proof.
    split; [intros; apply response_nonneg|]. intros l [D _]. unfold response. simpl.
    destruct (released _ m) as [c|].
    - destruct (noised_subprobability scale scale_is_positive (sums (map f c))) as [_ M].
      rewrite (total_filter _ (fun y => length y =? length (sums (map f c)))).
      assert (Z0 : forall l', (forall y, In y l' -> length y <> length (sums (map f c))) ->
        total (noised scale (sums (map f c))) l' <= 0).
      { assert (Z1 : forall s y, length y <> length s -> noised scale s y = 0).
        { induction s; intros [|b y] H; simpl in *; try lia; try reflexivity. rewrite IHs; [ring|lia]. }
        induction l'; intros H; simpl; [lra|]. rewrite Z1 by (apply H; left; reflexivity).
        assert (total (noised scale (sums (map f c))) l' <= 0) by (apply IHl'; intros; apply H; right; assumption). lra. }
      assert (total (noised scale (sums (map f c))) (filter (fun y => length y =? length (sums (map f c))) l) <= 1).
      { apply M. split; [apply NoDup_filter; exact D|]. intros y Hy. apply filter_In in Hy as [_ Hy]. apply Nat.eqb_eq, Hy. }
      assert (total (noised scale (sums (map f c))) (filter (fun y => negb (length y =? length (sums (map f c)))) l) <= 0).
      { apply Z0. intros y Hy. apply filter_In in Hy as [_ Hy]. intros E. apply Nat.eqb_eq in E. rewrite E in Hy. discriminate. }
      change (fun y => noised scale (sums (map f c)) y) with (noised scale (sums (map f c))). lra.
    - induction D as [|y l N D IH]; simpl; [lra|]. destruct y; [|lra].
      assert (Z0 : forall l' : list (list Z), ~ In [] l' -> total (fun y => match y with [] => 1 | _ => 0 end) l' = 0).
      { induction l'; intros H; simpl; [reflexivity|]. rewrite IHl' by (intro; apply H; right; assumption).
        destruct a; [exfalso; apply H; left; reflexivity|ring]. }
      rewrite (Z0 l N). lra.
  Qed.

  Lemma event_dec (x y : event) : {x = y} + {x <> y}.
  Proof.
    destruct x as [m y1], y as [n y2]. destruct (move_dec m n); [|right; congruence].
    destruct (list_eq_dec Z.eq_dec y1 y2); [left|right]; congruence.
  Qed.

  (* The transcripts of n events together have at most probability 1. *)
  Theorem transcript_is_a_distribution left n : subprobability (fun _ => True) (transcript left n).
  Proof.
    pose (kernel := fun past (e : event) => scheduler past (fst e) * response (world left) (fun i => i) past (fst e, snd e)).
    assert (K : forall past, subprobability (fun _ => True) (kernel past)).
    { intros past. pose proof (subprobability_pair move_dec (fun _ => True) (fun _ _ => True) (scheduler past)
        (fun m y => response (world left) (fun i => i) past (m, y)) (scheduler_is_a_distribution past)
        (fun m _ => response_subprobability _ _ past m) (fun m y => response_nonneg _ _ past (m, y))) as [N M].
      split; [exact N|]. intros l [D _]. apply M. split; auto. }
    assert (E : forall h, chain kernel h = played h * answers left h).
    { induction h as [|[m y] past IH]; simpl; [ring|]. rewrite IH. unfold kernel. simpl. ring. }
    pose proof (chain_of_subprobability event_dec kernel K n) as [N M].
    assert (F : forall h, transcript left n h = chain_of kernel n h).
    { intros h. unfold transcript, chain_of. rewrite E. reflexivity. }
    split; [intros h; rewrite F; apply N|]. intros l P. apply Rle_trans with (2 := M l P). apply total_le.
    intros h _. rewrite F. lra.
  Qed.

  (* The core of all theorems: if no possible history releases more than k changed rewards, the loss is k epsilon. *)
  Theorem loss_of_changed k : (forall h, 0 < played h -> (changed h <= k)%nat) ->
    forall n, private (INR k * epsilon) (transcript true n) (transcript false n).
  Proof.
    intros H n.
    assert (E0 : 0 <= epsilon).
    { unfold epsilon, Rdiv. apply Rmult_le_pos; [apply IZR_le; nia|]. left. apply Rinv_0_lt_compat. assumption. }
    assert (G : forall h a b, 0 <= a -> 0 <= b -> (0 < played h -> a <= exp (INR (changed h) * epsilon) * b) ->
      played h * a <= exp (INR k * epsilon) * (played h * b)).
    { intros h a b Ha Hb L. destruct (played_nonneg h) as [P|P].
      - replace (exp (INR k * epsilon) * (played h * b)) with (played h * (exp (INR k * epsilon) * b)) by ring.
        apply Rmult_le_compat_l; [lra|]. apply Rle_trans with (1 := L P). apply Rmult_le_compat_r; [assumption|].
        assert (INR (changed h) * epsilon <= INR k * epsilon) as [K| ->];
          [apply Rmult_le_compat_r; [assumption|apply le_INR, H, P]|left; apply exp_increasing; exact K|right; reflexivity].
      - rewrite <- P. lra. }
    apply private_from_points; intros h; unfold transcript; (destruct (length h =? n); [|lra]);
      apply G; auto using answers_nonneg; intros _; apply answers_ratio.
  Qed.
End Worlds.
