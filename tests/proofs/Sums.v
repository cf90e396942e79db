(* Probabilities of sets. The mass of a set is the supremum of the sums over its finite parts, so that sets of
   transcripts may be infinite. *)
From Coq Require Export Reals ZArith List Lia Lra Bool Arith.
Export ListNotations.
#[global] Open Scope R_scope.

Section Sums.
  Context {A : Type}.

  Fixpoint total (p : A -> R) (l : list A) : R :=
    match l with [] => 0 | x :: l => p x + total p l end.

  (* A finite part of the set S: each element once. *)
  Definition part (S : A -> Prop) (l : list A) := NoDup l /\ forall x, In x l -> S x.

  Definition mass (p : A -> R) (S : A -> Prop) (r : R) :=
    is_lub (fun s => exists l, part S l /\ s = total p l) r.

  (* No finite part of S has more than 1. *)
  Definition subprobability (S : A -> Prop) (p : A -> R) :=
    (forall x, 0 <= p x) /\ forall l, part S l -> total p l <= 1.

  (* Pure differential privacy: a factor of at most e^epsilon on every set, in both directions. *)
  Definition private (epsilon : R) (p q : A -> R) :=
    forall S a b, mass p S a -> mass q S b -> a <= exp epsilon * b /\ b <= exp epsilon * a.

  Lemma total_app p l m : total p (l ++ m) = total p l + total p m.
  Proof. induction l; simpl; lra. Qed.

  Lemma total_le p q l : (forall x, In x l -> p x <= q x) -> total p l <= total q l.
  Proof.
    induction l; simpl; intros H; [lra|].
    pose proof (H a (or_introl eq_refl)). specialize (IHl (fun x h => H x (or_intror h))). lra.
  Qed.

  Lemma total_scale c p l : total (fun x => c * p x) l = c * total p l.
  Proof. induction l; simpl; lra. Qed.

  Lemma total_nonneg p l : (forall x, 0 <= p x) -> 0 <= total p l.
  Proof. intros H. induction l; simpl; [lra|]. pose proof (H a). lra. Qed.

  Lemma total_incl p l : (forall x, 0 <= p x) -> NoDup l -> forall m, incl l m -> total p l <= total p m.
  Proof.
    intros H. induction l as [|x l IH]; intros D m I; [apply total_nonneg; assumption|].
    inversion D; subst. destruct (in_split x m (I x (or_introl eq_refl))) as [m1 [m2 ->]].
    assert (incl l (m1 ++ m2)).
    { intros y Hy. pose proof (I y (or_intror Hy)) as K. apply in_app_or in K as [K|[<-|K]];
        [apply in_or_app; auto|contradiction|apply in_or_app; auto]. }
    specialize (IH H3 _ H0). rewrite total_app in *. simpl. lra.
  Qed.

  Lemma total_filter p (f : A -> bool) l :
    total p l = total p (filter f l) + total p (filter (fun x => negb (f x)) l).
  Proof. induction l; simpl; [lra|]. destruct (f a); simpl; lra. Qed.

  (* The step from single transcripts to sets of them. *)
  Lemma private_from_points epsilon p q :
    (forall x, p x <= exp epsilon * q x) -> (forall x, q x <= exp epsilon * p x) -> private epsilon p q.
  Proof.
    assert (L : forall (p q : A -> R) S a b, (forall x, p x <= exp epsilon * q x) ->
              mass p S a -> mass q S b -> a <= exp epsilon * b).
    { intros p' q' S a b H [_ least] [upper _]. apply least. intros s [l [P ->]].
      apply Rle_trans with (exp epsilon * total q' l).
      - rewrite <- total_scale. apply total_le. auto.
      - apply Rmult_le_compat_l; [left; apply exp_pos|]. apply upper. exists l. auto. }
    intros Hp Hq S a b Ha Hb. split; [exact (L p q S a b Hp Ha Hb)|exact (L q p S b a Hq Hb Ha)].
  Qed.

  (* Every part of a subprobability has a mass, so "private" never speaks of nothing. *)
  Lemma mass_exists (S T : A -> Prop) p : subprobability T p -> (forall x, S x -> T x) -> exists r, mass p S r /\ 0 <= r <= 1.
  Proof.
    intros [nonneg most] sub.
    destruct (completeness (fun s => exists l, part S l /\ s = total p l)) as [r lub].
    - exists 1. intros s [l [[D I] ->]]. apply most. split; auto.
    - exists 0, []. split; [split; [constructor|simpl; tauto]|reflexivity].
    - exists r. split; [exact lub|]. destruct lub as [upper least]. split.
      + apply upper. exists []. split; [split; [constructor|simpl; tauto]|reflexivity].
      + apply least. intros s [l [[D I] ->]]. apply most. split; auto.
  Qed.

  Lemma private_weaker e f p q : e <= f -> (forall x, 0 <= p x) -> (forall x, 0 <= q x) -> private e p q -> private f p q.
  Proof.
    intros L P Q H S a b Ha Hb. destruct (H S a b Ha Hb).
    assert (exp e <= exp f) by (destruct L as [L| ->]; [left; apply exp_increasing; exact L|right; reflexivity]).
    assert (forall (p : A -> R) r, (forall x, 0 <= p x) -> mass p S r -> 0 <= r).
    { intros p' r N [u _]. apply u. exists []. split; [split; [constructor|simpl; tauto]|reflexivity]. }
    pose proof (H3 _ _ P Ha). pose proof (H3 _ _ Q Hb). split; nra.
  Qed.
End Sums.

Lemma total_map {A B} (f : B -> A) p l : total p (map f l) = total (fun x => p (f x)) l.
Proof. induction l; simpl; lra. Qed.

Lemma NoDup_map {A B} (f : A -> B) l :
  NoDup l -> (forall x y, In x l -> In y l -> f x = f y -> x = y) -> NoDup (map f l).
Proof.
  induction 1 as [|x l N D IH]; intros I; simpl; constructor.
  - rewrite in_map_iff. intros [y [E Hy]]. apply N. replace x with y; auto. apply I; simpl; auto.
  - apply IH. intros. apply I; simpl; auto.
Qed.

(* Post-processing: what is seen is any function of the transcript. *)
Lemma private_after {A B} (f : A -> B) epsilon p q (S : B -> Prop) a b :
  private epsilon p q -> mass p (fun x => S (f x)) a -> mass q (fun x => S (f x)) b -> a <= exp epsilon * b.
Proof. intros H Ha Hb. apply (H _ _ _ Ha Hb). Qed.

(* A second outcome whose distribution depends on the first. *)
Lemma subprobability_pair {A B} (eq : forall x y : A, {x = y} + {x <> y}) SA (SB : A -> B -> Prop) p k :
  subprobability SA p -> (forall a, SA a -> subprobability (SB a) (k a)) -> (forall a b, 0 <= k a b) ->
  subprobability (fun x => SA (fst x) /\ SB (fst x) (snd x)) (fun x => p (fst x) * k (fst x) (snd x)).
Proof.
  intros [Np Mp] K Nk. split; [intros; apply Rmult_le_pos; auto|].
  assert (step : forall la, NoDup la -> (forall a, In a la -> SA a) -> forall l : list (A * B), NoDup l ->
    (forall x, In x l -> In (fst x) la /\ SB (fst x) (snd x)) ->
    total (fun x => p (fst x) * k (fst x) (snd x)) l <= total p la).
  { induction la as [|a la IH]; intros D I l Dl Il.
    - destruct l as [|x l]; [simpl; lra|]. destruct (Il x (or_introl eq_refl)) as [[] _].
    - inversion D; subst.
      rewrite (total_filter _ (fun x => if eq (fst x) a then true else false)). simpl.
      apply Rplus_le_compat.
      + set (la' := filter _ l).
        assert (E : forall x, In x la' -> fst x = a /\ SB a (snd x) /\ In x l).
        { intros x Hx. apply filter_In in Hx as [H Hx]. destruct (eq (fst x) a); [|discriminate].
          destruct (Il x H) as [_ S]. subst a. auto. }
        apply Rle_trans with (p a * total (fun x => k a (snd x)) la').
        * rewrite <- total_scale. apply total_le. intros x Hx. destruct (E x Hx) as [-> _]. lra.
        * rewrite <- (total_map (@snd A B) (k a)). rewrite <- (Rmult_1_r (p a)) at 2. apply Rmult_le_compat_l; auto.
          apply (K a (I a (or_introl eq_refl))). split.
          -- apply NoDup_map; [apply NoDup_filter; assumption|]. intros x y Hx Hy Exy.
             destruct (E x Hx) as [F _], (E y Hy) as [G _]. destruct x, y; simpl in *; subst; reflexivity.
          -- intros b Hb. apply in_map_iff in Hb as [x [<- Hx]]. apply (E x Hx).
      + apply IH; auto.
        * intros b Hb; apply I; simpl; auto.
        * apply NoDup_filter; assumption.
        * intros x Hx. apply filter_In in Hx as [H Hx]. destruct (eq (fst x) a); [discriminate|].
          destruct (Il x H) as [[F|F] S]; [symmetry in F; contradiction|auto]. }
  intros l [D I]. apply Rle_trans with (total p (nodup eq (map fst l))).
  - apply step; auto.
    + apply NoDup_nodup.
    + intros a Ha. apply nodup_In in Ha. apply in_map_iff in Ha as [x [<- Hx]]. apply I; assumption.
    + intros x Hx. split; [apply nodup_In, in_map_iff; eauto|apply I; assumption].
  - apply Mp. split; [apply NoDup_nodup|]. intros a Ha. apply nodup_In in Ha.
    apply in_map_iff in Ha as [x [<- Hx]]. apply I; assumption.
Qed.

(* Outcomes under other names. *)
Lemma subprobability_map {A B} (f : B -> A) (S : A -> Prop) (T : B -> Prop) p :
  subprobability S p -> (forall x, T x -> S (f x)) -> (forall x y, T x -> T y -> f x = f y -> x = y) ->
  subprobability T (fun x => p (f x)).
Proof.
  intros [N M] I J. split; [auto|]. intros l [D Il]. rewrite <- total_map. apply M. split.
  - apply NoDup_map; auto.
  - intros a Ha. apply in_map_iff in Ha as [x [<- Hx]]. auto.
Qed.

(* Events one after the other, each with a distribution that depends on those before. The newest is first. *)
Section Chain.
  Context {E : Type}.
  Context (dec : forall x y : E, {x = y} + {x <> y}).
  Variable kernel : list E -> E -> R.
  Context (kernel_is_a_distribution : forall past, subprobability (fun _ => True) (kernel past)).

  Fixpoint chain (h : list E) : R := match h with [] => 1 | e :: past => chain past * kernel past e end.
  Definition chain_of (n : nat) (h : list E) := if length h =? n then chain h else 0.

  Lemma chain_nonneg h : 0 <= chain h.
  Proof. induction h; simpl; [lra|]. apply Rmult_le_pos; [assumption|apply kernel_is_a_distribution]. Qed.

  Lemma chain_subprobability n : subprobability (fun h => length h = n) chain.
  Proof.
    induction n as [|n IH]; (split; [apply chain_nonneg|]).
    - intros l [D I]. assert (N : forall h, In h l -> h = []) by (intros h H; apply length_zero_iff_nil, I, H).
      destruct l as [|x [|y l]]; simpl; [lra|rewrite (N x); simpl; auto; lra|]. exfalso.
      inversion D; subst. apply H1. rewrite (N x), (N y); simpl; auto.
    - pose proof (subprobability_pair (list_eq_dec dec) _ (fun _ _ => True) _ _ IH (fun past _ => kernel_is_a_distribution past)
        (fun past => proj1 (kernel_is_a_distribution past))) as Q.
      intros l P. destruct l as [|[|e0 past0] l0]; [simpl; lra| |].
      { destruct P as [_ P]. discriminate (P [] (or_introl eq_refl)). }
      revert P. generalize ((e0 :: past0) :: l0). clear l0 past0. intros l P.
      apply (subprobability_map (fun h : list E => (tl h, hd e0 h)) _ (fun h => length h = S n)) in Q.
      + apply Rle_trans with (2 := proj2 Q l P). apply total_le. intros h Hh. apply P in Hh.
        destruct h; [discriminate|]. simpl. lra.
      + intros h Hh. destruct h; [discriminate|]. simpl in *. auto.
      + intros x y Hx Hy. destruct x, y; try discriminate. intros H. injection H. intros; subst. reflexivity.
  Qed.

  Lemma chain_of_subprobability n : subprobability (fun _ => True) (chain_of n).
  Proof.
    split; [intros h; unfold chain_of; destruct (_ =? _); [apply chain_nonneg|lra]|]. intros l [D _].
    pose (full := fun h : list E => length h =? n). rewrite (total_filter _ full).
    assert (total (chain_of n) (filter full l) <= 1).
    { apply Rle_trans with (total chain (filter full l)).
      - apply total_le. intros h H. apply filter_In in H as [_ H]. unfold chain_of, full in *. rewrite H. lra.
      - apply chain_subprobability with (n := n). split; [apply NoDup_filter; exact D|].
        intros h H. apply filter_In in H as [_ H]. apply Nat.eqb_eq, H. }
    assert (total (chain_of n) (filter (fun h => negb (full h)) l) <= 0).
    { apply Rle_trans with (total (fun _ => 0 * 0) (filter (fun h => negb (full h)) l)).
      - apply total_le. intros h Hh. apply filter_In in Hh as [_ Hh]. unfold chain_of, full in *.
        destruct (length h =? n); [discriminate|lra].
      - rewrite total_scale. lra. }
    lra.
  Qed.
End Chain.
