(* Gaussian noise: rho-zCDP for one reward, k^2 rho-zCDP for a unit of k, for batches of one number. That the noise itself
   has zCDP is a hypothesis (Canonne, Kamath and Steinke 2020, Theorem 4). Renyi divergences of order alpha add up along
   a history, whatever the scheduler chooses by what was released (Feldman and Zrnic 2021). *)
Require Import Sums Laplace Transcripts Machine Worlds Once Unit.

Lemma total_zero {A} (f : A -> R) l : (forall x, In x l -> f x = 0) -> total f l = 0.
Proof. induction l; intros H; simpl; [reflexivity|]. rewrite IHl by (intros; apply H; right; assumption). rewrite H; [ring|left; reflexivity]. Qed.

Section Zcdp.
  Variable noise : Z -> R.                       (* the mass of the noise at an integer *)
  Variables alpha rho : R.                       (* the order of the divergence *)
  Variable grid : Z.
  Variable clicks : option nat.
  Variable arrange : nat -> list nat -> list nat.
  Variable scheduler : history -> move -> R.
  Variable mine : name -> bool.
  Variable k : nat.

  Notation lim := (limited clicks).
  Notation both := (pair grid clicks arrange).
  Notation one := (world grid clicks arrange).
  Notation possible h := (0 < played scheduler h).

  (* How far the distribution p is from q at an outcome: the divergence of order alpha sums these. *)
  Definition tilted (p q : R) := if Rlt_dec 0 q then Rpower p alpha * Rpower q (1 - alpha) else 0.

  Hypothesis noise_is_positive : forall x, 0 < noise x.
  Hypothesis noise_has_zcdp : forall a b l, NoDup l ->
    total (fun y => tilted (noise (y - a)) (noise (y - b))) l <= exp (alpha * (alpha - 1) * rho * (IZR (a - b) / IZR grid) ^ 2).
  Hypothesis order_is_above_one : 1 < alpha.
  Hypothesis rho_is_positive : 0 < rho.
  Hypothesis grid_is_positive : (0 < grid)%Z.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_the_unit_differs : forall past l n a b, 0 < scheduler past (Arrive l n a b) -> mine n = true \/ a = b.
  Hypothesis whole_requests : lim = true -> forall n m, user n = user m -> request n = request m -> mine n = mine m.
  (* What Theorems P, U and M count. *)
  Hypothesis at_most_k_decisions : forall h, possible h -> (decided grid clicks arrange mine h + copied grid clicks arrange mine h <= k)%nat.

  Definition sum (l : list (item (option Z))) := sum_of 1 grid 1 0 l.

  Definition drawn (r : option (list (item (option Z)))) (y : list Z) : R :=
    match r, y with Some l, [v] => noise (v - sum l) | None, [] => 1 | _, _ => 0 end.
  Fixpoint answers left (h : history) : R :=
    match h with [] => 1 | e :: past => answers left past * drawn (released (run lim (one left) past) (fst e)) (snd e) end.
  Definition transcript left (h : history) := played scheduler h * answers left h.

  Definition side (f : option Z * option Z -> option Z) (r : option (list (item (option Z * option Z)))) := option_map (map (map_item f)) r.

  Lemma released_left past m : released (run lim (one true) past) m = side fst (released (run lim both past) m).
  Proof.
    rewrite (run_natural lim fst both (one true) (left_natural grid clicks arrange) past).
    destruct m; try reflexivity. simpl. rewrite filter_map. reflexivity.
  Qed.

  Lemma released_right past m : released (run lim (one false) past) m = side snd (released (run lim both past) m).
  Proof.
    rewrite (run_natural lim snd both (one false) (right_natural grid clicks arrange) past).
    destruct m; try reflexivity. simpl. rewrite filter_map. reflexivity.
  Qed.

  (* The square of the number of changed rewards, summed over releases. *)
  Definition square past m : R :=
    match released (run lim both past) m with Some l => INR (count (differs grid) l) ^ 2 | None => 0 end.
  Fixpoint squares (h : history) : R := match h with [] => 0 | e :: past => squares past + square past (fst e) end.

  Definition c := alpha * (alpha - 1) * rho.
  Lemma c_is_positive : 0 < c.
  Proof. unfold c. apply Rmult_lt_0_compat; [apply Rmult_lt_0_compat|]; lra. Qed.

  Definition tilt past m y : R :=
    tilted (drawn (side fst (released (run lim both past) m)) y) (drawn (side snd (released (run lim both past) m)) y).

  Lemma tilted_nonneg p q : 0 <= tilted p q.
  Proof. unfold tilted. destruct (Rlt_dec 0 q); [|lra]. unfold Rpower. left. apply Rmult_lt_0_compat; apply exp_pos. Qed.

  Lemma tilted_one : tilted 1 1 = 1.
  Proof. unfold tilted. destruct (Rlt_dec 0 1); [|lra]. unfold Rpower. rewrite ln_1, !Rmult_0_r, exp_0. ring. Qed.

  Lemma tilted_zero p : tilted p 0 = 0.
  Proof. unfold tilted. destruct (Rlt_dec 0 0); lra. Qed.

  Lemma shift l : (IZR (sum (map (map_item fst) l) - sum (map (map_item snd) l)) / IZR grid) ^ 2 <= INR (count (differs grid) l) ^ 2.
  Proof.
    pose proof (sums_distance 1 grid 1 ltac:(lia) ltac:(lia) l) as D. unfold sums in D. cbn [seq map distance] in D.
    fold (sum (map (map_item fst) l)) in D. fold (sum (map (map_item snd) l)) in D. rewrite Z.add_0_r, Z.mul_1_l in D.
    set (d := (sum (map (map_item fst) l) - sum (map (map_item snd) l))%Z) in *. set (n := count (differs grid) l) in *.
    assert (G : 0 < IZR grid) by (apply IZR_lt; exact grid_is_positive).
    rewrite <- !Rsqr_pow2. apply Rsqr_le_abs_1. rewrite (Rabs_right (INR n)) by (apply Rle_ge, pos_INR).
    unfold Rdiv. rewrite Rabs_mult, (Rabs_right (/ IZR grid)) by (left; apply Rinv_0_lt_compat; exact G).
    apply Rmult_le_reg_r with (IZR grid); [exact G|]. rewrite Rmult_assoc, Rinv_l, Rmult_1_r by lra.
    rewrite <- abs_IZR, INR_IZR_INZ, <- mult_IZR. apply IZR_le. lia.
  Qed.

  Lemma tilt_subprobability past m : subprobability (fun _ => True) (fun y => tilt past m y * exp (- c * square past m)).
  Proof.
    pose proof c_is_positive as C.
    split; [intros; apply Rmult_le_pos; [apply tilted_nonneg|left; apply exp_pos]|]. intros l [D _].
    unfold tilt, square. destruct (released (run lim both past) m) as [r|]; simpl side.
    - set (s := sum (map (map_item fst) r)). set (t := sum (map (map_item snd) r)).
      assert (B : forall ys : list (list Z), NoDup ys -> exists vs, NoDup vs /\ (forall v, In v vs -> In [v] ys) /\
        total (fun y => tilted (drawn (Some (map (map_item fst) r)) y) (drawn (Some (map (map_item snd) r)) y)) ys =
        total (fun v => tilted (noise (v - s)) (noise (v - t))) vs).
      { induction 1 as [|y ys N ND [vs [E [F G]]]]; [exists []; simpl; repeat split; [constructor|tauto]|].
        destruct y as [|v [|w y]]; cbn [total]; rewrite G.
        - exists vs. simpl drawn. rewrite tilted_zero. repeat split; [exact E|intros; right; apply F; assumption|ring].
        - exists (v :: vs). repeat split.
          + constructor; [|exact E]. intros H. apply F in H. contradiction.
          + intros x [<-|H]; [left; reflexivity|right; apply F; exact H].
        - exists vs. simpl drawn. rewrite tilted_zero. repeat split; [exact E|intros; right; apply F; assumption|ring]. }
      destruct (B l D) as [vs [E [_ G]]].
      apply Rle_trans with (exp (- c * INR (count (differs grid) r) ^ 2) * total (fun v => tilted (noise (v - s)) (noise (v - t))) vs).
      + right. rewrite <- G. rewrite <- total_scale. clear. induction l as [|y l IH]; simpl; [reflexivity|]. simpl in IH. rewrite IH. ring.
      + apply Rle_trans with (exp (- c * INR (count (differs grid) r) ^ 2) * exp (c * (IZR (s - t) / IZR grid) ^ 2)).
        * apply Rmult_le_compat_l; [left; apply exp_pos|]. apply noise_has_zcdp. exact E.
        * rewrite <- exp_plus, <- exp_0. pose proof (shift r) as Sh. fold s t in Sh.
          assert (- c * INR (count (differs grid) r) ^ 2 + c * (IZR (s - t) / IZR grid) ^ 2 <= 0) as [L| ->]; [nra|left; apply exp_increasing; exact L|right; reflexivity].
    - rewrite Rmult_0_r, exp_0. induction D as [|y l N D IH]; [simpl; lra|]. cbn [total] in *. destruct y as [|v y].
      + rewrite (total_zero _ l).
        * simpl drawn. rewrite tilted_one. lra.
        * intros y Hy. destruct y; [contradiction|]. simpl drawn. rewrite tilted_zero. ring.
      + simpl drawn at 1 2. rewrite tilted_zero. lra.
  Qed.

  Definition kernel past (e : event) : R := scheduler past (fst e) * (tilt past (fst e) (snd e) * exp (- c * square past (fst e))).

  Lemma kernel_subprobability past : subprobability (fun _ => True) (kernel past).
  Proof.
    pose proof (subprobability_pair move_dec (fun _ => True) (fun _ _ => True) (scheduler past)
      (fun m y => tilt past m y * exp (- c * square past m)) (scheduler_is_a_distribution past) (fun m _ => tilt_subprobability past m)
      (fun m y => proj1 (tilt_subprobability past m) y)) as [N M].
    split; [exact N|]. intros l [D _]. apply M. split; auto.
  Qed.

  Lemma drawn_nonneg r y : 0 <= drawn r y.
  Proof. destruct r, y as [|v [|w y]]; simpl; try lra. left. apply noise_is_positive. Qed.

  Lemma drawn_support r y : (0 < drawn (side fst r) y /\ 0 < drawn (side snd r) y) \/ (drawn (side fst r) y = 0 /\ drawn (side snd r) y = 0).
  Proof. destruct r, y as [|v [|w y]]; simpl; try (right; lra); left; (split; [try apply noise_is_positive|try apply noise_is_positive]; lra). Qed.

  Lemma answers_support h : (0 < answers true h /\ 0 < answers false h) \/ (answers true h = 0 /\ answers false h = 0).
  Proof.
    induction h as [|e past [[A B]|[A B]]]; simpl; [left; lra| |right; rewrite A, B; lra].
    rewrite released_left, released_right. destruct (drawn_support (released (run lim both past) (fst e)) (snd e)) as [[C D]|[C D]].
    - left. split; apply Rmult_lt_0_compat; assumption.
    - right. rewrite C, D. lra.
  Qed.

  Lemma tilted_product p q x y : (0 < p /\ 0 < q) \/ (p = 0 /\ q = 0) -> (0 < x /\ 0 < y) \/ (x = 0 /\ y = 0) ->
    tilted (p * x) (q * y) = tilted p q * tilted x y.
  Proof.
    intros H G. destruct H as [[P Q]|[-> ->]]; [|rewrite !Rmult_0_l, tilted_zero; ring]. destruct G as [[X Y]|[-> ->]]; [|rewrite !Rmult_0_r, tilted_zero; ring].
    unfold tilted. pose proof (Rmult_lt_0_compat _ _ Q Y).
    destruct (Rlt_dec 0 (q * y)); [|lra]. destruct (Rlt_dec 0 q); [|lra]. destruct (Rlt_dec 0 y); [|lra].
    rewrite <- !Rpower_mult_distr by assumption. ring.
  Qed.

  Lemma tilted_same p : 0 <= p -> tilted p p = p.
  Proof.
    intros [P| <-]; [|apply tilted_zero]. unfold tilted. destruct (Rlt_dec 0 p); [|lra].
    rewrite <- Rpower_plus. replace (alpha + (1 - alpha)) with 1 by ring. apply Rpower_1. exact P.
  Qed.

  Lemma chain_is_tilted h : chain kernel h = played scheduler h * tilted (answers true h) (answers false h) * exp (- c * squares h).
  Proof.
    induction h as [|e past IH]; simpl.
    - rewrite tilted_one, Rmult_0_r, exp_0. ring.
    - rewrite IH, released_left, released_right, tilted_product by (apply answers_support || apply drawn_support).
      unfold kernel, tilt. rewrite Rmult_plus_distr_l, exp_plus. ring.
  Qed.

  Lemma squares_at_most h : squares h <= INR (changed grid clicks arrange h) ^ 2.
  Proof.
    induction h as [|e past IH]; simpl; [lra|]. rewrite plus_INR. unfold square.
    destruct (released (run lim both past) (fst e)) as [l|]; simpl INR.
    - pose proof (pos_INR (changed grid clicks arrange past)). pose proof (pos_INR (count (differs grid) l)). simpl in *. nra.
    - simpl in *. lra.
  Qed.

  (* The sum of P^alpha Q^(1 - alpha) over any finite set of transcripts of n events. *)
  Theorem theorem_zcdp n l : NoDup l -> (forall h, In h l -> length h = n) ->
    total (fun h => tilted (transcript true h) (transcript false h)) l <= exp (alpha * (alpha - 1) * (INR k ^ 2 * rho)).
  Proof.
    intros D L. pose proof c_is_positive as C.
    apply Rle_trans with (total (fun h => exp (c * INR k ^ 2) * chain kernel h) l).
    - apply total_le. intros h _. unfold transcript. pose proof (chosen_nonneg scheduler scheduler_is_a_distribution h) as P. fold (played scheduler h) in P.
      rewrite tilted_product by (destruct P as [P| <-]; [left; split; exact P|right; split; reflexivity] || apply answers_support).
      rewrite (tilted_same _ P), chain_is_tilted. pose proof (tilted_nonneg (answers true h) (answers false h)) as T.
      destruct P as [P|P]; [|rewrite <- P; lra].
      pose proof (at_most_k_decisions h P) as K.
      pose proof (changed_at_most_decided grid 1 clicks arrange mine whole_requests h
        (possible_is_adjacent scheduler mine scheduler_is_a_distribution only_the_unit_differs h P)) as Q.
      assert (Sq : squares h <= INR k ^ 2).
      { apply Rle_trans with (1 := squares_at_most h). apply pow_incr. split; [apply pos_INR|]. apply le_INR. lia. }
      assert (E : 1 <= exp (c * INR k ^ 2) * exp (- c * squares h)).
      { rewrite <- exp_plus, <- exp_0. assert (0 <= c * INR k ^ 2 + - c * squares h) as [B|B]; [nra|left; apply exp_increasing; exact B|right; rewrite <- B; reflexivity]. }
      replace (exp (c * INR k ^ 2) * (played scheduler h * tilted (answers true h) (answers false h) * exp (- c * squares h)))
        with (played scheduler h * tilted (answers true h) (answers false h) * (exp (c * INR k ^ 2) * exp (- c * squares h))) by ring.
      rewrite <- (Rmult_1_r (_ * _)) at 1. apply Rmult_le_compat_l; [apply Rmult_le_pos; lra|exact E].
    - rewrite total_scale. replace (alpha * (alpha - 1) * (INR k ^ 2 * rho)) with (c * INR k ^ 2) by (unfold c; ring).
      rewrite <- Rmult_1_r. apply Rmult_le_compat_l; [left; apply exp_pos|].
      apply (chain_subprobability (event_dec move_dec) kernel kernel_subprobability n). split; assumption.
  Qed.
End Zcdp.
