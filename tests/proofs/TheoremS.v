(* Theorem S (requests). The unit is one request with all its rewards, or k requests of one user. A request has at most
   `slots` rewards, and with max_clicks = c at most c of them are kept, drawn by a coin: the loss is at most
   min(2c, slots) e for each request. The coins of the draw are part of the transcript, which only helps the adversary. *)
Require Import Sums Laplace Machine Worlds Once Unit.

Section S.
  Variable scale e : R.
  Variables bound grid : Z.
  Variable dim : nat.
  Variable clicks : option nat.
  Variable arrange : nat -> list nat -> list nat.
  Variable scheduler : history -> move -> R.
  Variable mine : name -> bool.
  Variables slots k : nat.

  Notation lim := (limited clicks).
  Notation both := (pair grid clicks arrange).
  Notation possible h := (0 < played scheduler h).

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis bound_is_nonneg : (0 <= bound)%Z.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.
  Hypothesis noise_is_large_enough : IZR (bound * grid) <= e * scale.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_the_unit_differs : forall past l n a b, 0 < scheduler past (Arrive l n a b) -> mine n = true \/ a = b.
  Hypothesis states_are_opened_once : opened_once grid clicks arrange scheduler.
  Hypothesis whole_requests : forall n m, user n = user m -> request n = request m -> mine n = mine m.

  (* The requests of the unit, and how many slots they have. *)
  Fixpoint requests_of_unit (h : history) : nat :=
    match h with
    | [] => O
    | ev :: past => (requests_of_unit past + match fst ev with
        Decide l u j => if mine (Name u (requests (run lim both past)) 0) then 1 else O | _ => O end)%nat
    end.
  Hypothesis at_most_k_requests : forall h, possible h -> (requests_of_unit h <= k)%nat.
  Hypothesis at_most_slots : forall past l u j, 0 < scheduler past (Decide l u j) -> (j <= slots)%nat.

  Lemma decided_slots h : possible h -> (decided grid clicks arrange mine h <= slots * requests_of_unit h)%nat.
  Proof.
    induction h as [|ev past IH]; intros P; [apply Nat.le_0_l|].
    apply played_before in P as [P E]; [|assumption]. specialize (IH P). unfold decided in *. simpl. unfold decided_by at 2.
    destruct (fst ev) as [| l u j | | | | | | | | | | | | | ] eqn:M; try (rewrite Nat.mul_add_distr_l; lia).
    rewrite slots_of_fresh. pose proof (at_most_slots _ _ _ _ E) as J.
    destruct (mine (Name u (requests (run lim both past)) 0)) eqn:B.
    - assert (F : forall (f : nat -> bool) l, (length (filter f l) <= length l)%nat) by (intros f xs; induction xs; simpl; [lia|]; destruct (f a); simpl; lia).
      specialize (F (fun i => mine (Name u (requests (run lim both past)) i)) (seq 1 j)). rewrite seq_length in F. rewrite Nat.mul_add_distr_l. lia.
    - assert (filter (fun i => mine (Name u (requests (run lim both past)) i)) (seq 1 j) = []) as ->.
      { assert (forall i, mine (Name u (requests (run lim both past)) i) = false).
        { intros i. rewrite <- B. apply whole_requests; reflexivity. }
        clear - H. induction (seq 1 j); simpl; [reflexivity|]. rewrite H. assumption. }
      rewrite Nat.mul_add_distr_l. simpl. lia.
  Qed.

  (* With max_clicks = c: 2c for a request whose rewards are not limited yet; afterwards, each reward that differs. *)
  Section Clicks.
    Variable c : nat.
    Context (clicks_is_c : clicks = Some c).

    Definition potential (i : item (option Z * option Z)) : nat :=
      if mine (decision i) then
        match at_stage i with
        | Waiting => if slot (decision i) =? 0 then (2 * c)%nat else O
        | _ => if differs grid i then 1%nat else O
        end
      else O.

    Definition unequal (v : option Z * option Z) := negb (reward grid (fst v) =? reward grid (snd v))%Z.

    (* At most c rewards of a request are left. *)
    Lemma kept_at_most coin vs : (count (fun v => negb (reward grid v =? 0)%Z) (keep grid arrange c coin vs) <= c)%nat.
    Proof.
      unfold keep, count. set (kept := firstn c _).
      apply Nat.le_trans with (length kept); [|unfold kept; rewrite firstn_length; lia].
      apply Nat.le_trans with (length (filter (fun j => existsb (Nat.eqb j) kept) (seq 0 (length vs)))).
      - induction (seq 0 (length vs)) as [|j js IH]; simpl; [lia|].
        destruct (existsb (Nat.eqb j) kept); simpl; [destruct (negb _); simpl|]; lia.
      - apply NoDup_incl_length; [apply NoDup_filter, seq_NoDup|]. intros j I. apply filter_In in I as [_ I].
        apply existsb_exists in I as [x [I E]]. apply Nat.eqb_eq in E. subst. exact I.
    Qed.

    (* So the two worlds differ in at most 2c of them. *)
    Lemma unequal_at_most (a b : list (option Z)) :
      (count unequal (combine a b) <=
       count (fun v => negb (reward grid v =? 0)%Z) a + count (fun v => negb (reward grid v =? 0)%Z) b)%nat.
    Proof.
      unfold count. revert b. induction a as [|x a IH]; intros [|y b]; simpl; try lia. specialize (IH b).
      unfold unequal at 1. simpl.
      destruct (reward grid x =? reward grid y)%Z eqn:A; destruct (reward grid x =? 0)%Z eqn:B; destruct (reward grid y =? 0)%Z eqn:D;
        simpl; try lia; apply Z.eqb_eq in B, D; rewrite B, D, Z.eqb_refl in A; discriminate.
    Qed.

    Lemma potential_refill f rest : (forall i, In i rest -> f i = true -> potential i = O) ->
      forall vs, (all potential (refill f vs rest) <= all potential rest + count unequal vs)%nat.
    Proof.
      unfold all, count. induction rest as [|i rest IH]; intros N vs; simpl; [lia|].
      specialize (IH (fun x h => N x (or_intror h))). destruct (f i) eqn:F; [|specialize (IH vs); simpl; lia].
      pose proof (N i (or_introl eq_refl) F) as Pi. destruct vs as [|v vs]; [specialize (IH []); simpl in *; lia|].
      specialize (IH vs). simpl. rewrite Pi. unfold potential at 1. simpl. unfold differs. simpl. fold (unequal v).
      destruct (mine _); destruct (unequal v); simpl; lia.
    Qed.

    Lemma potential_refill_of_others f rest : (forall i, In i rest -> f i = true -> mine (decision i) = false) ->
      forall vs, (all potential (refill f vs rest) <= all potential rest)%nat.
    Proof.
      unfold all. induction rest as [|i rest IH]; intros N vs; simpl; [lia|].
      specialize (IH (fun x h => N x (or_intror h))). destruct (f i) eqn:F; [|specialize (IH vs); simpl; lia].
      pose proof (N i (or_introl eq_refl) F) as Pi. destruct vs as [|v vs]; [specialize (IH []); simpl in *; lia|].
      specialize (IH vs). simpl. unfold potential at 1 3. simpl. rewrite Pi. lia.
    Qed.

    Lemma potential_is_limited l u r coin its : lim = true -> existsb (token l u r) its = true ->
      let rest := without (token l u r) its in
      (all potential (refill (in_request l u r) (limit both coin (map value (filter (in_request l u r) rest))) rest) <= all potential its)%nat.
    Proof.
      intros _ T rest. rewrite (all_split potential (token l u r) its). fold rest.
      assert (R : forall i : item (option Z * option Z), in_request l u r i = true -> mine (decision i) = mine (Name u r 0)).
      { intros i H. unfold in_request in H. repeat (apply andb_prop in H as [H ?]).
        repeat match goal with Q : (_ =? _) = true |- _ => apply Nat.eqb_eq in Q end. apply whole_requests; simpl; congruence. }
      destruct (mine (Name u r 0)) eqn:M.
      - assert (2 * c <= all potential (filter (token l u r) its))%nat.
        { apply existsb_exists in T as [t [I Tt]].
          assert (J : In t (filter (token l u r) its)) by (apply filter_In; auto).
          assert (potential t = 2 * c)%nat as Pt.
          { unfold token in Tt. apply andb_prop in Tt as [Tr Ts]. unfold potential. rewrite (R t Tr), Ts.
            unfold in_request in Tr. apply andb_prop in Tr as [_ Tr]. destruct (at_stage t); try discriminate. reflexivity. }
          clear - J Pt. unfold all. induction (filter (token l u r) its) as [|x xs IH]; [destruct J|].
          simpl. destruct J as [->|J]; [lia|]. specialize (IH J). lia. }
        set (vs := map value (filter (in_request l u r) rest)).
        pose proof (potential_refill (in_request l u r) rest) as P.
        assert (N : forall i, In i rest -> in_request l u r i = true -> potential i = O).
        { intros i I F. apply filter_In in I as [_ I]. unfold token in I. rewrite F in I. unfold potential.
          unfold in_request in F. apply andb_prop in F as [_ F]. destruct (at_stage i); try discriminate.
          destruct (slot (decision i) =? 0); [discriminate|]. destruct (mine (decision i)); reflexivity. }
        specialize (P N (limit both coin vs)). simpl limit in P. unfold limit_one in P. rewrite clicks_is_c in P.
        simpl limit. unfold limit_one. rewrite clicks_is_c.
        pose proof (unequal_at_most (keep grid arrange c coin (map fst vs)) (keep grid arrange c coin (map snd vs))).
        pose proof (kept_at_most coin (map fst vs)). pose proof (kept_at_most coin (map snd vs)). lia.
      - pose proof (potential_refill_of_others (in_request l u r) rest) as P.
        assert (N : forall i, In i rest -> in_request l u r i = true -> mine (decision i) = false) by (intros i _ F; rewrite (R i F); reflexivity).
        specialize (P N (limit both coin (map value (filter (in_request l u r) rest)))). lia.
    Qed.

    Lemma differing_is_potential l : (forall i, In i l -> same mine i /\ placed (at_stage i) = true) ->
      (count (differs grid) l <= all potential l)%nat.
    Proof.
      unfold count, all. induction l as [|i l IH]; intros H; simpl; [lia|].
      specialize (IH (fun x h => H x (or_intror h))). destruct (H i (or_introl eq_refl)) as [S0 P].
      destruct (differs grid i) eqn:D; simpl; [|lia]. assert (potential i = 1%nat); [|lia]. unfold potential. rewrite D.
      destruct (mine (decision i)) eqn:M; [destruct (at_stage i); try discriminate P; reflexivity|].
      unfold differs in D. rewrite (S0 M), Z.eqb_refl in D. discriminate.
    Qed.

    Lemma changed_at_most_clicks h : possible h -> (changed grid clicks arrange h <= 2 * c * requests_of_unit h)%nat.
    Proof.
      intros P. pose proof (released_at_most_once lim both potential (fun _ _ => eq_refl)) as O.
      assert (A : forall a b i, waiting (at_stage i) = true -> (potential (received both a b i) <= potential i)%nat).
      { intros a b i W. unfold potential. simpl. destruct (at_stage i); try discriminate. lia. }
      assert (E : forall l n b row f (i : item (option Z * option Z)), due lim l n i = true -> (potential (entered b row f i) <= potential i)%nat).
      { intros l n b row f i D. unfold due in D. unfold limited in D. rewrite clicks_is_c in D. apply andb_prop in D as [_ D].
        unfold potential. simpl. destruct (at_stage i); try discriminate. apply Nat.le_refl. }
      specialize (O A E potential_is_limited h).
      assert (Z0 : along lim both (copied_by potential) h = 0%nat)
        by (apply nothing_is_copied with (scheduler := scheduler); auto).
      assert (D : along lim both (decided_by lim both potential) h = (2 * c * requests_of_unit h)%nat).
      { clear - clicks_is_c whole_requests. induction h as [|ev past IH]; [simpl; lia|]. simpl along. rewrite IH. clear IH.
        simpl requests_of_unit. destruct (fst ev) as [| l u m | | | | | | | | | | | | | ]; simpl decided_by; try lia.
        set (r := requests (run lim both past)). unfold fresh. rewrite all_app.
        assert (all potential (map (fun j => Item l (Name u r j) Waiting (blank both)) (seq 1 m)) = 0%nat) as ->.
        { unfold all. rewrite map_map. assert (forall js, (forall j, In j js -> j <> 0%nat) ->
            list_sum (map (fun j => potential (Item l (Name u r j) Waiting (blank both))) js) = 0%nat) as A.
          { induction js as [|j js IH]; intros N; [reflexivity|]. change (list_sum (map ?g (j :: js))) with (g j + list_sum (map g js))%nat.
            rewrite IH by (intros; apply N; right; assumption). unfold potential. simpl.
            destruct j; [exfalso; apply (N 0%nat); [left; reflexivity|reflexivity]|]. destruct (mine _); reflexivity. }
          apply A. intros j I. apply in_seq in I. lia. }
        unfold limited at 1. rewrite clicks_is_c. unfold all, potential. simpl. destruct (mine _); simpl; lia. }
      assert (changed grid clicks arrange h <= along lim both (released_by potential) h)%nat; [|lia].
      apply (possible_is_adjacent scheduler mine) in P; [|assumption..].
      clear - P whole_requests dim. induction h as [|ev past IH]; simpl; [lia|]. pose proof P as [P' _]. specialize (IH P').
      pose proof (same_everywhere grid dim clicks arrange mine (fun _ => whole_requests) past P') as [S0 _].
      apply Nat.add_le_mono; [exact IH|]. unfold released_by.
      destruct (released (run lim both past) (fst ev)) as [l|] eqn:R; [|lia]. apply differing_is_potential. intros i I.
      unfold released in R. destruct (fst ev); try discriminate. injection R as <-. apply filter_In in I as [I B].
      split; [apply S0, I|]. unfold in_batch in B. destruct (at_stage i); try discriminate. reflexivity.
    Qed.
  End Clicks.

  (* How many rewards of a request may differ. *)
  Definition d := match clicks with Some c => Nat.min (2 * c) slots | None => slots end.

  Theorem theorem_S n : private (INR (k * d) * e) (transcript scale bound grid dim clicks arrange scheduler true n)
    (transcript scale bound grid dim clicks arrange scheduler false n).
  Proof.
    apply loss_of_changes; auto. intros h P.
    assert (A : (changed grid clicks arrange h <= slots * requests_of_unit h)%nat).
    { pose proof (decided_slots h P). pose proof (possible_is_adjacent scheduler mine scheduler_is_a_distribution only_the_unit_differs h P) as J.
      pose proof (changed_at_most_decided grid dim clicks arrange mine (fun _ => whole_requests) h J) as Q. unfold copied in Q.
      rewrite nothing_is_copied with (scheduler := scheduler) in Q; auto. lia. }
    assert (B : forall c, clicks = Some c -> (changed grid clicks arrange h <= 2 * c * requests_of_unit h)%nat)
      by (intros c E; apply changed_at_most_clicks; assumption).
    pose proof (at_most_k_requests h P) as K. revert A B. generalize (changed grid clicks arrange h). intros x A B. unfold d.
    destruct clicks as [c|]; [|nia]. specialize (B c eq_refl).
    destruct (Nat.min_spec (2 * c) slots) as [[_ ->]|[_ ->]]; nia.
  Qed.
End S.
