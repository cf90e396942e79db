(* Discrete Laplace noise on the integers, P(X = x) proportional to exp(-|x|/scale), in several coordinates. *)
Require Import Sums.

Section Laplace.
  Variable scale : R.
  Hypothesis scale_is_positive : 0 < scale.

  Definition q := exp (- / scale).
  Definition laplace (x : Z) : R := (1 - q) / (1 + q) * exp (- (IZR (Z.abs x) / scale)).

  Lemma q_range : 0 < q < 1.
  Proof.
    unfold q. split; [apply exp_pos|]. rewrite <- exp_0. apply exp_increasing.
    pose proof (Rinv_0_lt_compat _ scale_is_positive). lra.
  Qed.

  Lemma laplace_nonneg x : 0 <= laplace x.
  Proof.
    pose proof q_range. unfold laplace. apply Rmult_le_pos; [|left; apply exp_pos].
    apply Rmult_le_pos; [lra|]. left. apply Rinv_0_lt_compat. lra.
  Qed.

  (* A sum that moves by s changes the probability of an output by a factor of at most e^(s/scale). *)
  Lemma laplace_ratio a b : laplace a <= exp (IZR (Z.abs (a - b)) / scale) * laplace b.
  Proof.
    pose proof q_range. unfold laplace.
    replace (exp (IZR (Z.abs (a - b)) / scale) * ((1 - q) / (1 + q) * exp (- (IZR (Z.abs b) / scale))))
      with ((1 - q) / (1 + q) * exp (IZR (Z.abs (a - b)) / scale + - (IZR (Z.abs b) / scale)))
      by (rewrite exp_plus; ring).
    apply Rmult_le_compat_l.
    - apply Rmult_le_pos; [lra|]. left. apply Rinv_0_lt_compat. lra.
    - assert (- (IZR (Z.abs a) / scale) <= IZR (Z.abs (a - b)) / scale + - (IZR (Z.abs b) / scale)) as [L| ->].
      { assert (IZR (Z.abs b) <= IZR (Z.abs (a - b)) + IZR (Z.abs a)) by (rewrite <- plus_IZR; apply IZR_le; lia).
        pose proof (Rinv_0_lt_compat _ scale_is_positive). unfold Rdiv. nra. }
      + left. apply exp_increasing. exact L.
      + right. reflexivity.
  Qed.

  Fixpoint upto (n : nat) : list Z :=
    match n with O => [0%Z] | S n => Z.of_nat (S n) :: (- Z.of_nat (S n))%Z :: upto n end.

  Lemma upto_total n : total laplace (upto n) = 1 - 2 * q ^ (S n) / (1 + q).
  Proof.
    pose proof q_range.
    assert (E : forall k, exp (- (IZR (Z.of_nat k) / scale)) = q ^ k).
    { induction k; simpl.
      - rewrite <- exp_0. f_equal. unfold Rdiv. lra.
      - rewrite <- IHk. unfold q. rewrite <- exp_plus. f_equal.
        change (Z.pos (Pos.of_succ_nat k)) with (Z.of_nat (S k)). rewrite Nat2Z.inj_succ, succ_IZR.
        unfold Rdiv. ring. }
    induction n.
    - simpl. unfold laplace. simpl. replace (- (0 / scale)) with 0 by (unfold Rdiv; ring). rewrite exp_0.
      field. lra.
    - change (upto (S n)) with (Z.of_nat (S n) :: (- Z.of_nat (S n))%Z :: upto n).
      change (total laplace (?x :: ?y :: ?l)) with (laplace x + (laplace y + total laplace l)).
      rewrite IHn. unfold laplace. rewrite Z.abs_opp, Z.abs_eq by lia. rewrite E. simpl. field. lra.
  Qed.

  Lemma in_upto n z : (Z.abs z <= Z.of_nat n)%Z -> In z (upto n).
  Proof.
    induction n; intros L.
    - simpl. left. lia.
    - change (upto (S n)) with (Z.of_nat (S n) :: (- Z.of_nat (S n))%Z :: upto n). simpl In.
      destruct (Z.eq_dec z (Z.of_nat (S n))) as [->|]; [left; reflexivity|].
      destruct (Z.eq_dec z (- Z.of_nat (S n))) as [->|]; [right; left; reflexivity|].
      right. right. apply IHn. lia.
  Qed.

  Lemma laplace_subprobability : subprobability (fun _ => True) laplace.
  Proof.
    split; [apply laplace_nonneg|]. intros l [D _].
    assert (exists n, incl l (upto n)) as [n I].
    { clear D. induction l as [|z l [n I]].
      - exists O. intros x [].
      - exists (Nat.max n (Z.abs_nat z)). intros x [<-|H]; apply in_upto; [lia|].
        assert (forall k x, In x (upto k) -> (Z.abs x <= Z.of_nat k)%Z) as up.
        { induction k; intros y Hy; [simpl in Hy; destruct Hy as [<-|[]]; lia|].
          change (upto (S k)) with (Z.of_nat (S k) :: (- Z.of_nat (S k))%Z :: upto k) in Hy.
          simpl In in Hy. destruct Hy as [<-|[<-|Hy]]; [lia|lia|]. specialize (IHk y Hy). lia. }
        specialize (up n x (I x H)). lia. }
    apply Rle_trans with (total laplace (upto n)); [apply total_incl; auto using laplace_nonneg|].
    rewrite upto_total. pose proof q_range. pose proof (pow_lt q (S n) (proj1 H)).
    assert (0 < 2 * q ^ S n / (1 + q)) by (apply Rdiv_lt_0_compat; lra). lra.
  Qed.

  (* It is a distribution: all integers together have mass 1. *)
  Lemma laplace_total : mass laplace (fun _ => True) 1.
  Proof.
    split.
    - intros s [l [P ->]]. apply laplace_subprobability. exact P.
    - intros b H. apply Rnot_lt_le. intros L. pose proof q_range as [q0 q1].
      assert (close : Rabs q < 1) by (rewrite Rabs_right; lra).
      destruct (pow_lt_1_zero q close ((1 - b) / 2)) as [N K]; [lra|].
      specialize (K (S N) (Nat.le_succ_diag_r N)). rewrite Rabs_right in K by (apply Rle_ge, pow_le; lra).
      assert (In1 : total laplace (upto N) <= b).
      { apply H. exists (upto N). split; [|reflexivity]. split; [|auto]. clear. induction N; [constructor; [simpl; tauto|constructor]|].
        assert (forall k x, In x (upto k) -> (Z.abs x <= Z.of_nat k)%Z) as up.
        { induction k; intros y Hy; [simpl in Hy; destruct Hy as [<-|[]]; lia|].
          change (upto (S k)) with (Z.of_nat (S k) :: (- Z.of_nat (S k))%Z :: upto k) in Hy.
          simpl In in Hy. destruct Hy as [<-|[<-|Hy]]; [lia|lia|]. specialize (IHk y Hy). lia. }
        change (upto (S N)) with (Z.of_nat (S N) :: (- Z.of_nat (S N))%Z :: upto N).
        constructor; [|constructor; [|exact IHN]].
        - intros [E|E]; [lia|]. specialize (up _ _ E). lia.
        - intros E. specialize (up _ _ E). lia. }
      rewrite upto_total in In1.
      assert (2 * q ^ S N / (1 + q) <= 2 * q ^ S N).
      { pose proof (pow_le q (S N) (Rlt_le _ _ q0)). unfold Rdiv. rewrite <- (Rmult_1_r (2 * q ^ S N)) at 2.
        apply Rmult_le_compat_l; [lra|]. rewrite <- Rinv_1. apply Rinv_le_contravar; lra. }
      lra.
  Qed.

  (* The probability that the sums s are released as y: independent noise in each coordinate. *)
  Fixpoint noised (s y : list Z) : R :=
    match s, y with
    | [], [] => 1
    | a :: s, b :: y => laplace (b - a) * noised s y
    | _, _ => 0
    end.

  Fixpoint distance (s t : list Z) : Z :=
    match s, t with a :: s, b :: t => (Z.abs (a - b) + distance s t)%Z | _, _ => 0%Z end.

  Lemma noised_nonneg s : forall y, 0 <= noised s y.
  Proof. induction s; destruct y; simpl; try lra. apply Rmult_le_pos; auto using laplace_nonneg. Qed.

  Lemma noised_ratio s : forall t y, length s = length t ->
    noised s y <= exp (IZR (distance s t) / scale) * noised t y.
  Proof.
    induction s as [|a s IH]; intros [|b t] y L; try discriminate L.
    - replace (IZR (distance [] []) / scale) with 0 by (simpl; unfold Rdiv; ring). rewrite exp_0. lra.
    - destruct y as [|c y].
      + simpl. rewrite Rmult_0_r. lra.
      + simpl noised. simpl distance. rewrite plus_IZR.
        replace ((IZR (Z.abs (a - b)) + IZR (distance s t)) / scale)
          with (IZR (Z.abs (a - b)) / scale + IZR (distance s t) / scale) by (unfold Rdiv; ring).
        rewrite exp_plus.
        replace (exp (IZR (Z.abs (a - b)) / scale) * exp (IZR (distance s t) / scale) * (laplace (c - b) * noised t y))
          with ((exp (IZR (Z.abs (a - b)) / scale) * laplace (c - b)) * (exp (IZR (distance s t) / scale) * noised t y)) by ring.
        apply Rmult_le_compat; auto using laplace_nonneg, noised_nonneg.
        replace (Z.abs (a - b)) with (Z.abs (c - a - (c - b))) by lia. apply laplace_ratio.
  Qed.

  Lemma noised_subprobability s : subprobability (fun y => length y = length s) (noised s).
  Proof.
    induction s as [|a s IH].
    - split; [apply noised_nonneg|]. intros l [D I]. destruct l as [|x [|y l]]; simpl; try lra.
      + destruct x; simpl; lra.
      + exfalso. pose proof (I x (or_introl eq_refl)) as X. pose proof (I y (or_intror (or_introl eq_refl))) as Y.
        destruct x, y; try discriminate. inversion D; subst. apply H1. left. reflexivity.
    - split; [apply noised_nonneg|]. intros l [D I].
      pose (f := fun y : list Z => (hd 0%Z y, tl y)).
      assert (P : subprobability (fun x : Z * list Z => True /\ length (snd x) = length s)
        (fun x => laplace (fst x - a) * noised s (snd x))).
      { apply (subprobability_pair Z.eq_dec (fun _ => True) (fun _ y => length y = length s)
          (fun x => laplace (x - a)) (fun _ => noised s)); auto using noised_nonneg.
        apply (subprobability_map (fun x => x - a)%Z (fun _ => True)); auto using laplace_subprobability.
        intros. lia. }
      apply (subprobability_map f _ (fun y => length y = S (length s))) in P.
      + destruct P as [_ P]. apply Rle_trans with (2 := P l (conj D I)). apply total_le. intros y Hy.
        pose proof (I y Hy). destruct y; [discriminate|]. simpl. lra.
      + intros y Hy. destruct y; [discriminate|]. simpl in *. auto.
      + intros x y Hx Hy. destruct x, y; try discriminate. intros E. injection E. intros; subst. reflexivity.
  Qed.
End Laplace.
