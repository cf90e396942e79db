(* Transcripts of two worlds: whoever chooses the moves sees all moves and all released numbers. What a move releases, with
   noise, is a vector that depends on the world. The loss is what the vectors of all releases differ by. *)
Require Import Sums Laplace.

(* Vectors that are not too long: others enter as nothing. *)
Section Vectors.
  Variable dim : nat.
  Variable bound : Z.                         (* of the L1 norm *)

  Definition norm (v : list Z) := fold_right (fun j s => (Z.abs (nth j v 0) + s)%Z) 0%Z (seq 0 dim).
  Definition fit (v : list Z) := if (norm v <=? bound)%Z then v else [].

  Hypothesis bound_is_nonneg : (0 <= bound)%Z.

  Lemma norm_fit v : (norm (fit v) <= bound)%Z.
  Proof.
    unfold fit. destruct (norm v <=? bound)%Z eqn:E; [lia|].
    assert (norm [] = 0%Z) as ->; [|assumption].
    unfold norm. induction (seq 0 dim) as [|j js IH]; cbn [fold_right]; [reflexivity|]. rewrite IH. destruct j; reflexivity.
  Qed.
End Vectors.

Section Transcripts.
  Context {move : Type}.
  Context (move_dec : forall m n : move, {m = n} + {m <> n}).
  Variable scale : R.                         (* of the noise *)

  (* A move, and the released numbers if it is a release. A history has the newest event first. *)
  Notation event := (move * list Z)%type.
  Notation history := (list event).

  Variable content : bool -> history -> move -> option (list Z). (* in the left world, and in the right *)
  Variable scheduler : history -> move -> R.  (* the probability of the next move *)

  Definition told (c : option (list Z)) (y : list Z) : R :=
    match c with Some s => noised scale s y | None => match y with [] => 1 | _ => 0 end end.

  (* The probability of the released numbers, given the moves. *)
  Fixpoint answered (left : bool) (h : history) : R :=
    match h with [] => 1 | e :: past => answered left past * told (content left past (fst e)) (snd e) end.

  Fixpoint chosen (h : history) : R := match h with [] => 1 | e :: past => chosen past * scheduler past (fst e) end.

  (* The probability of a transcript of n events. *)
  Definition transcript_of (left : bool) (n : nat) (h : history) : R :=
    if length h =? n then chosen h * answered left h else 0.

  (* What the releases of both worlds differ by. *)
  Definition gap (c d : option (list Z)) := match c, d with Some s, Some t => distance s t | _, _ => 0%Z end.
  Fixpoint gaps (h : history) : Z :=
    match h with [] => 0%Z | e :: past => (gaps past + gap (content true past (fst e)) (content false past (fst e)))%Z end.

  Hypothesis scale_is_positive : 0 < scale.

  Lemma told_nonneg c y : 0 <= told c y.
  Proof. unfold told. destruct c; [apply noised_nonneg; assumption|]. destruct y; lra. Qed.

  Lemma answered_nonneg left h : 0 <= answered left h.
  Proof. induction h; simpl; [lra|]. apply Rmult_le_pos; [assumption|apply told_nonneg]. Qed.

  Lemma told_subprobability c : subprobability (fun _ => True) (told c).
  Proof.
    split; [apply told_nonneg|]. intros l [D _]. unfold told. destruct c as [s|].
    - destruct (noised_subprobability scale scale_is_positive s) as [_ M].
      rewrite (total_filter _ (fun y => length y =? length s)).
      assert (Z0 : forall l', (forall y, In y l' -> length y <> length s) -> total (noised scale s) l' <= 0).
      { assert (Z1 : forall s y, length y <> length s -> noised scale s y = 0).
        { induction s0; intros [|b y] H; simpl in *; try lia; try reflexivity. rewrite IHs0; [ring|lia]. }
        induction l'; intros H; simpl; [lra|]. rewrite Z1 by (apply H; left; reflexivity).
        assert (total (noised scale s) l' <= 0) by (apply IHl'; intros; apply H; right; assumption). lra. }
      assert (total (noised scale s) (filter (fun y => length y =? length s) l) <= 1).
      { apply M. split; [apply NoDup_filter; exact D|]. intros y Hy. apply filter_In in Hy as [_ Hy]. apply Nat.eqb_eq, Hy. }
      assert (total (noised scale s) (filter (fun y => negb (length y =? length s)) l) <= 0).
      { apply Z0. intros y Hy. apply filter_In in Hy as [_ Hy]. intros E. apply Nat.eqb_eq in E. rewrite E in Hy. discriminate. }
      change (fun y => noised scale s y) with (noised scale s). lra.
    - induction D as [|y l N D IH]; simpl; [lra|]. destruct y; [|lra].
      assert (Z0 : forall l' : list (list Z), ~ In [] l' -> total (fun y => match y with [] => 1 | _ => 0 end) l' = 0).
      { induction l'; intros H; simpl; [reflexivity|]. rewrite IHl' by (intro; apply H; right; assumption).
        destruct a; [exfalso; apply H; left; reflexivity|ring]. }
      rewrite (Z0 l N). lra.
  Qed.

  Lemma distance_sym s : forall t, distance s t = distance t s.
  Proof. induction s; intros [|b t]; simpl; [reflexivity..|]. rewrite IHs. lia. Qed.

  (* Both worlds release at the same moves, and as many numbers. *)
  Definition alike (c d : option (list Z)) :=
    match c, d with Some s, Some t => length s = length t | None, None => True | _, _ => False end.
  Context (worlds_are_alike : forall past m, alike (content true past m) (content false past m)).

  Lemma told_ratio c d y : alike c d -> told c y <= exp (IZR (gap c d) / scale) * told d y.
  Proof.
    destruct c as [s|], d as [t|]; simpl; intros A; try contradiction; [apply noised_ratio; assumption|].
    unfold Rdiv. rewrite Rmult_0_l, exp_0. lra.
  Qed.

  Lemma alike_sym c d : alike c d -> alike d c.
  Proof. destruct c, d; simpl; auto. Qed.

  Lemma gap_sym c d : gap c d = gap d c.
  Proof. destruct c, d; simpl; auto using distance_sym. Qed.

  Lemma answered_ratio h :
    answered true h <= exp (IZR (gaps h) / scale) * answered false h /\
    answered false h <= exp (IZR (gaps h) / scale) * answered true h.
  Proof.
    induction h as [|e past [L R]]; simpl.
    - unfold Rdiv. rewrite Rmult_0_l, exp_0. lra.
    - pose proof (worlds_are_alike past (fst e)) as A. set (c := content true past (fst e)) in *. set (d := content false past (fst e)) in *.
      pose proof (told_ratio c d (snd e) A) as P. pose proof (told_ratio d c (snd e) (alike_sym _ _ A)) as Q. rewrite gap_sym in Q.
      rewrite plus_IZR. replace ((IZR (gaps past) + IZR (gap c d)) / scale) with (IZR (gaps past) / scale + IZR (gap c d) / scale)
        by (unfold Rdiv; ring). rewrite exp_plus.
      pose proof (answered_nonneg true past). pose proof (answered_nonneg false past).
      pose proof (told_nonneg c (snd e)). pose proof (told_nonneg d (snd e)).
      split; match goal with |- _ <= ?a * ?b * (?c * ?d) => replace (a * b * (c * d)) with ((a * c) * (b * d)) by ring end;
        apply Rmult_le_compat; assumption.
  Qed.

  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).

  Lemma chosen_nonneg h : 0 <= chosen h.
  Proof. induction h; simpl; [lra|]. apply Rmult_le_pos; [assumption|apply scheduler_is_a_distribution]. Qed.

  Lemma chosen_before ev past : 0 < chosen (ev :: past) -> 0 < chosen past /\ 0 < scheduler past (fst ev).
  Proof.
    simpl. intros P. destruct (chosen_nonneg past) as [A|A].
    - split; [exact A|]. destruct (proj1 (scheduler_is_a_distribution past) (fst ev)) as [B|B]; [exact B|].
      rewrite <- B in P. lra.
    - rewrite <- A in P. lra.
  Qed.

  Lemma event_dec (x y : event) : {x = y} + {x <> y}.
  Proof.
    destruct x as [m y1], y as [n y2]. destruct (move_dec m n); [|right; congruence].
    destruct (list_eq_dec Z.eq_dec y1 y2); [left|right]; congruence.
  Qed.

  (* The transcripts of n events together have at most probability 1. *)
  Theorem transcripts_are_a_distribution left n : subprobability (fun _ => True) (transcript_of left n).
  Proof.
    pose (kernel := fun past (e : event) => scheduler past (fst e) * told (content left past (fst e)) (snd e)).
    assert (K : forall past, subprobability (fun _ => True) (kernel past)).
    { intros past. pose proof (subprobability_pair move_dec (fun _ => True) (fun _ _ => True) (scheduler past)
        (fun m y => told (content left past m) y) (scheduler_is_a_distribution past)
        (fun m _ => told_subprobability _) (fun m y => told_nonneg _ _)) as [N M].
      split; [exact N|]. intros l [D _]. apply M. split; auto. }
    assert (E : forall h, chain kernel h = chosen h * answered left h).
    { induction h as [|[m y] past IH]; simpl; [ring|]. rewrite IH. unfold kernel. simpl. ring. }
    pose proof (chain_of_subprobability event_dec kernel K n) as [N M].
    assert (F : forall h, transcript_of left n h = chain_of kernel n h).
    { intros h. unfold transcript_of, chain_of. rewrite E. reflexivity. }
    split; [intros h; rewrite F; apply N|]. intros l P. apply Rle_trans with (2 := M l P). apply total_le.
    intros h _. rewrite F. lra.
  Qed.

  (* The core of all theorems: if the releases of no possible history differ by more than e * scale, the loss is e. *)
  Theorem loss_of_gaps e : (forall h, 0 < chosen h -> IZR (gaps h) <= e * scale) ->
    forall n, private e (transcript_of true n) (transcript_of false n).
  Proof.
    intros H n.
    assert (G : forall h a b, 0 <= a -> 0 <= b -> (0 < chosen h -> a <= exp (IZR (gaps h) / scale) * b) ->
      chosen h * a <= exp e * (chosen h * b)).
    { intros h a b Ha Hb L. destruct (chosen_nonneg h) as [P|P].
      - replace (exp e * (chosen h * b)) with (chosen h * (exp e * b)) by ring.
        apply Rmult_le_compat_l; [lra|]. apply Rle_trans with (1 := L P). apply Rmult_le_compat_r; [assumption|].
        assert (IZR (gaps h) / scale <= e) as [K| ->];
          [|left; apply exp_increasing; exact K|right; reflexivity].
        apply Rmult_le_reg_r with scale; [assumption|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. rewrite Rmult_1_r. auto.
      - rewrite <- P. lra. }
    apply private_from_points; intros h; unfold transcript_of; (destruct (length h =? n); [|lra]);
      apply G; auto using answered_nonneg; intros _; apply answered_ratio.
  Qed.
End Transcripts.
