(* The loss of a unit is the number of its decisions that are learned from, times the loss of one. The unit is any set
   of decisions: one reward, a request, a user. *)
Require Import Sums Laplace Transcripts Machine Worlds Once.

Section Unit.
  Variable scale : R.
  Variables bound grid : Z.
  Variable dim : nat.
  Variable clicks : option nat.
  Variable arrange : nat -> list nat -> list nat.
  Variable scheduler : history -> move -> R.
  Variable mine : name -> bool.

  Notation lim := (limited clicks).
  Notation both := (pair grid clicks arrange).
  Notation possible h := (0 < played scheduler h).

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis bound_is_nonneg : (0 <= bound)%Z.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  (* Adjacency. The value may differ, and so may the time of arrival: None in one world, and again later. *)
  Hypothesis only_the_unit_differs : forall past l n a b,
    0 < scheduler past (Arrive l n a b) -> mine n = true \/ a = b.
  (* With max_clicks the unit is made of whole requests, because the draw of one reward depends on the others. *)
  Hypothesis whole_requests : lim = true -> forall n m, user n = user m -> request n = request m -> mine n = mine m.

  (* The same of a history. *)
  Fixpoint adjacent (h : history) : Prop :=
    match h with
    | [] => True
    | ev :: past => adjacent past /\ match fst ev with Arrive _ n a b => mine n = true \/ a = b | _ => True end
    end.

  Lemma played_before ev past : possible (ev :: past) -> possible past /\ 0 < scheduler past (fst ev).
  Proof. apply chosen_before. exact scheduler_is_a_distribution. Qed.

  Lemma possible_is_adjacent h : possible h -> adjacent h.
  Proof.
    induction h as [|ev past IH]; intros P; simpl; [exact I|]. apply played_before in P as [P E]. split; [auto|].
    destruct (fst ev); try exact I. apply (only_the_unit_differs past l). exact E.
  Qed.

  Definition same (i : item (option Z * option Z)) := mine (decision i) = false -> fst (value i) = snd (value i).

  Lemma refill_in {V} (f : item V -> bool) l : forall vs i, In i (refill f vs l) ->
    In i l \/ exists k v, In k l /\ f k = true /\ In v vs /\ i = Item (incarnation k) (decision k) Fixed v.
  Proof.
    induction l as [|k l IH]; simpl; [tauto|]. intros vs i H. destruct (f k) eqn:F.
    - destruct vs as [|v vs]; destruct H as [<-|H]; try tauto.
      + destruct (IH _ _ H) as [|[x [w [A [B [C D]]]]]]; [tauto|destruct C].
      + right. exists k, v. simpl. auto.
      + destruct (IH _ _ H) as [|[x [w [A [B [C D]]]]]]; [tauto|]. right. exists x, w. simpl. auto.
    - destruct H as [<-|H]; [tauto|]. destruct (IH _ _ H) as [|[x [w [A [B [C D]]]]]]; [tauto|].
      right. exists x, w. auto.
  Qed.

  Lemma combine_same {A} (l : list A) a b : In (a, b) (combine l l) -> a = b.
  Proof. induction l; simpl; [tauto|]. intros [E|H]; [congruence|auto]. Qed.

  Lemma same_everywhere h : adjacent h -> everywhere same (run lim both h).
  Proof.
    induction h as [|ev past IH]; intros P; [repeat split; simpl; tauto|].
    destruct P as [P E]. simpl. apply everywhere_step; auto.
    - unfold fresh. intros l u r k i H. apply in_app_or in H as [H|H].
      + destruct lim; [destruct H as [<-|[]]|destruct H]. intros _. reflexivity.
      + apply in_map_iff in H as [j [<- _]]. intros _. reflexivity.
    - intros l u r coin its L H i I. apply refill_in in I as [I|[k [v [K [F [Iv ->]]]]]]; [auto|].
      intros M. simpl in *. set (vs := map value (filter (in_request l u r) its)) in *.
      assert (map fst vs = map snd vs) as S0.
      { unfold vs. rewrite !map_map. apply map_ext_in. intros x Hx. apply filter_In in Hx as [Hx Fx].
        apply H; [exact Hx|]. rewrite <- M. unfold in_request in F, Fx.
        repeat (apply andb_prop in F as [F ?]). repeat (apply andb_prop in Fx as [Fx ?]).
        repeat match goal with Q : (_ =? _) = true |- _ => apply Nat.eqb_eq in Q end.
        apply whole_requests; congruence. }
      rewrite S0 in Iv. destruct v as [a b]. apply combine_same in Iv. exact Iv.
    - intros l n a b i Em En Si M. simpl in *. rewrite En in M. rewrite Em in E.
      destruct E as [T| ->]; [congruence|reflexivity].
  Qed.

  (* A reward of the unit, and not the token of a request. *)
  Definition counted {V} (i : item V) : nat :=
    if mine (decision i) && negb (lim && waiting (at_stage i) && (slot (decision i) =? 0)) then 1%nat else O.

  Definition decided : history -> nat := along lim both (decided_by lim both counted).
  Definition copied : history -> nat := along lim both (copied_by counted).

  Lemma counted_enters {V} l n b row f (i : item V) : due lim l n i = true -> (counted (entered b row f i) <= counted i)%nat.
  Proof.
    clear whole_requests. intros D. unfold counted. simpl. rewrite andb_false_r. simpl.
    destruct lim eqn:L; [|rewrite !andb_false_l; simpl; lia].
    unfold due in D. apply andb_prop in D as [_ D]. destruct (at_stage i); simpl in *; try discriminate; lia.
  Qed.

  Lemma counted_is_limited {V} (ops : values V) l u r coin its : lim = true -> existsb (token l u r) its = true ->
    let rest := without (token l u r) its in
    (all counted (refill (in_request l u r) (limit ops coin (map value (filter (in_request l u r) rest))) rest) <= all counted its)%nat.
  Proof.
    clear whole_requests. intros L _ rest. generalize (limit ops coin (map value (filter (in_request l u r) rest))). intros vs.
    assert (A : (all counted rest <= all counted its)%nat) by (rewrite (all_split counted (token l u r) its); unfold rest; lia).
    apply Nat.le_trans with (2 := A). clear A.
    assert (N : forall i, In i rest -> token l u r i = false).
    { intros i H. apply filter_In in H as [_ H]. destruct (token l u r i); [discriminate|reflexivity]. }
    revert vs N. generalize rest. clear. intros its. unfold all. induction its as [|i its IH]; intros vs N; simpl; [lia|].
    pose proof (N i (or_introl eq_refl)) as T. specialize (fun vs => IH vs (fun k h => N k (or_intror h))).
    destruct (in_request l u r i) eqn:F; [|specialize (IH vs); simpl; lia].
    destruct vs as [|v vs]; [specialize (IH []); simpl; lia|]. specialize (IH vs). simpl.
    assert (counted (Item (incarnation i) (decision i) Fixed v) <= counted i)%nat; [|lia].
    unfold token in T. rewrite F in T. simpl in T. unfold counted. simpl. rewrite T, !andb_false_r. simpl. lia.
  Qed.

  Lemma all_differ l : (forall i, In i l -> same i /\ placed (at_stage i) = true) ->
    (count (differs grid) l <= all counted l)%nat.
  Proof.
    unfold count, all. induction l as [|i l IH]; intros H; simpl; [lia|].
    specialize (IH (fun k h => H k (or_intror h))). destruct (H i (or_introl eq_refl)) as [S0 P].
    destruct (differs grid i) eqn:D; simpl; [|lia].
    assert (counted i = 1%nat); [|lia]. unfold counted.
    destruct (mine (decision i)) eqn:M; [destruct (at_stage i); try discriminate P; simpl; rewrite andb_false_r; reflexivity|].
    unfold differs in D. rewrite (S0 M), Z.eqb_refl in D. discriminate.
  Qed.

  (* Each decision of the unit is in at most one release, but for states that are opened again. *)
  Theorem changed_at_most_decided h : adjacent h -> (changed grid clicks arrange h <= decided h + copied h)%nat.
  Proof.
    intros P. pose proof (released_at_most_once lim both counted) as O.
    specialize (O (fun _ _ => eq_refl) (fun _ _ _ _ => Nat.le_refl _) counted_enters (counted_is_limited both) h).
    assert (changed grid clicks arrange h <= along lim both (released_by counted) h)%nat; [|unfold decided, copied; lia].
    clear O. induction h as [|ev past IH]; simpl; [lia|]. destruct P as [P _]. specialize (IH P).
    pose proof (same_everywhere past P) as [S0 _]. apply Nat.add_le_mono; [exact IH|]. unfold released_by.
    destruct (released (run lim both past) (fst ev)) as [l|] eqn:R; [|lia]. apply all_differ. intros i I.
    unfold released in R. destruct (fst ev); try discriminate. injection R as <-. apply filter_In in I as [I B].
    split; [apply S0, I|]. unfold in_batch in B. destruct (at_stage i); try discriminate. reflexivity.
  Qed.

  (* e is what the noise is for: scale is bound * grid / e or more. *)
  Variable e : R.
  Hypothesis noise_is_large_enough : IZR (bound * grid) <= e * scale.

  Lemma loss_of_changes k : (forall h, possible h -> (changed grid clicks arrange h <= k)%nat) -> forall n,
    private (INR k * e) (transcript scale bound grid dim clicks arrange scheduler true n)
      (transcript scale bound grid dim clicks arrange scheduler false n).
  Proof.
    intros H n. apply private_weaker with (e := INR k * epsilon scale bound grid).
    - apply Rmult_le_compat_l; [apply pos_INR|]. unfold epsilon. apply Rmult_le_reg_r with scale; [assumption|].
      unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra.
    - apply (transcript_is_a_distribution scale bound grid dim clicks arrange scheduler); assumption.
    - apply (transcript_is_a_distribution scale bound grid dim clicks arrange scheduler); assumption.
    - apply loss_of_changed; auto.
  Qed.

  Theorem loss_of_unit k : (forall h, possible h -> (decided h + copied h <= k)%nat) -> forall n,
    private (INR k * e) (transcript scale bound grid dim clicks arrange scheduler true n)
      (transcript scale bound grid dim clicks arrange scheduler false n).
  Proof.
    intros H. apply loss_of_changes. intros h P. pose proof (changed_at_most_decided h (possible_is_adjacent h P)). specialize (H h P). lia.
  Qed.

  (* Of every set of transcripts, both worlds have a probability: the bound does not speak of nothing. *)
  Lemma transcripts_have_masses left n S : exists r, mass (transcript scale bound grid dim clicks arrange scheduler left n) S r /\ 0 <= r <= 1.
  Proof.
    apply mass_exists with (T := fun _ => True); [|auto]. apply transcript_is_a_distribution; assumption.
  Qed.

  (* A state that moves is opened by one incarnation. A handle that is only restored, and never resumed, satisfies this. *)
  Definition opened_once := forall past l j t, nth_error (stored (run lim both past)) j = Some t -> opened t = true ->
    scheduler past (Resume l j) = 0.

  Lemma nothing_is_copied weight : opened_once -> forall h, possible h -> along lim both (copied_by weight) h = O.
  Proof.
    intros H. induction h as [|ev past IH]; intros P; [reflexivity|]. apply played_before in P as [P E].
    simpl. rewrite (IH P). unfold copied_by. destruct (fst ev) eqn:M; try reflexivity.
    destruct (nth_error _ j) as [t|] eqn:N; [|reflexivity]. destruct (opened t) eqn:Q; [|reflexivity].
    rewrite (H past l j t N Q) in E. lra.
  Qed.

  Lemma slots_of_fresh l u r k : all counted (fresh lim both l u r k) = length (filter (fun j => mine (Name u r j)) (seq 1 k)).
  Proof.
    clear whole_requests. unfold fresh. rewrite all_app.
    assert (all counted (if lim then [Item l (Name u r 0) Waiting (blank both)] else []) = O) as ->.
    { unfold all, counted. destruct lim; simpl; [rewrite andb_false_r|]; reflexivity. }
    simpl. unfold all. rewrite map_map.
    rewrite (map_ext_in _ (fun j => if mine (Name u r j) then 1%nat else O)).
    - induction (seq 1 k) as [|j js IH]; simpl; [reflexivity|]. rewrite IH. destruct (mine _); reflexivity.
    - intros j I. apply in_seq in I. unfold counted. simpl. destruct j; [lia|]. simpl. rewrite andb_false_r, andb_true_r. reflexivity.
  Qed.

  (* Requests have different numbers. *)
  Lemma decided_in_request r k :
    (forall d, mine d = true -> request d = r) ->
    (forall l u j, (all counted (fresh lim both l u r j) <= k)%nat) -> forall h, (decided h <= k)%nat.
  Proof.
    clear whole_requests. intros M K h. assert (decided h <= if r <? requests (run lim both h) then k else O)%nat as A.
    2: destruct (r <? _); lia.
    assert (Z0 : forall l u q j, q <> r -> all counted (fresh lim both l u q j) = O).
    { intros l u q j N. assert (forall l', (forall i, In i l' -> request (decision i) = q) -> all (V := option Z * option Z) counted l' = O) as Z1.
      { unfold all. induction l' as [|i l' IH]; intros R; simpl; [reflexivity|].
        rewrite IH by (intros; apply R; right; assumption). unfold counted.
        destruct (mine (decision i)) eqn:E; [|reflexivity]. apply M in E. rewrite (R i (or_introl eq_refl)) in E. congruence. }
      apply Z1. unfold fresh. intros i H. apply in_app_or in H as [H|H].
      - destruct lim; [destruct H as [<-|[]]; reflexivity|destruct H].
      - apply in_map_iff in H as [x [<- _]]. reflexivity. }
    induction h as [|ev past IH]; [apply Nat.le_0_l|]. unfold decided in *. simpl.
    set (s := run lim both past) in *.
    assert (Q : decided_by lim both counted s (fst ev) = O /\ (requests s <= requests (step lim both s (fst ev)))%nat \/
      exists l u j, fst ev = Decide l u j).
    { destruct (fst ev); simpl; try (left; split; [reflexivity|]; lia); try (right; eauto; fail); left; (split; [reflexivity|]).
      - destruct (lim && _); simpl; lia.
      - destruct (nth_error (net s) j); [|lia]. destruct (accepts s l m); simpl; lia.
      - destruct (nth_error (stored s) j); simpl; lia. }
    destruct Q as [[Q R]|[l [u [j Q]]]].
    - rewrite Q. destruct (Nat.ltb_spec r (requests s)); destruct (Nat.ltb_spec r (requests (step lim both s (fst ev)))); lia.
    - rewrite Q. simpl. destruct (Nat.eq_dec (requests s) r) as [E|N].
      + rewrite E in *. specialize (K l u j). rewrite Nat.ltb_irrefl in IH.
        assert (r <? S r = true) as -> by (apply Nat.ltb_lt; lia). lia.
      + rewrite (Z0 _ _ _ _ N). destruct (Nat.ltb_spec r (requests s)); destruct (Nat.ltb_spec r (S (requests s))); lia.
  Qed.
End Unit.

(* A unit of one decision. *)
Lemma one_decision_is_decided_once grid clicks arrange d h : (decided grid clicks arrange (named d) h <= 1)%nat.
Proof.
  apply decided_in_request with (r := request d).
  - intros c M. unfold named in M. destruct (name_dec d c); [subst; reflexivity|discriminate].
  - intros l u j. rewrite slots_of_fresh. set (js := filter _ _).
    assert (D : NoDup js) by (apply NoDup_filter, seq_NoDup).
    assert (A : forall x, In x js -> x = slot d).
    { intros x I. apply filter_In in I as [_ I]. unfold named in I. destruct (name_dec d _) as [->|]; [reflexivity|discriminate]. }
    destruct js as [|x [|y js]]; simpl; try lia. exfalso. inversion D; subst. apply H1.
    rewrite (A x), (A y); simpl; auto.
Qed.
