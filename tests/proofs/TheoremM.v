(* Theorem M (states that move). A state that is suspended and resumed continues what was open, so the theorems hold over
   all incarnations with the same constants, if each state is opened once: `states_are_opened_once` in their files. A state that
   n incarnations open costs n times as much. The code is src/bandit/moving.rs.

   The incarnations need not form a chain. In a hand-over one incarnation resumes the state, and another one begins beside it with
   nothing, from a snapshot: `hand_over`. The theorems count the rewards of all incarnations together, so they hold for both. *)
Require Import Sums Laplace Machine Worlds Once Unit.

Section Continues.
  Variable limited : bool.
  Context {V : Type}.
  Variable ops : values V.

  (* The new incarnation holds what the old one held, in the same order: each batch, and each open decision with its reward. *)
  Theorem a_state_continues (s : state V) (l k : nat) (f : item V -> bool) (g : item V -> bool) :
    (forall i, In i (items s) -> incarnation i <> k) ->
    (forall i, g (moved_to k i) = f i) ->
    filter (fun i => of_incarnation k i && g i) (items (step limited ops (step limited ops s (Suspend l)) (Resume k (length (stored s))))) =
    map (moved_to k) (filter (fun i => of_incarnation l i && f i) (items s)).
  Proof.
    intros N G. simpl. rewrite nth_error_app2 by lia. rewrite Nat.sub_diag. simpl.
    rewrite filter_app, filter_map.
    assert (filter (fun i => of_incarnation k i && g i) (without (of_incarnation l) (items s)) = []) as ->.
    { assert (Z0 : forall i, In i (without (of_incarnation l) (items s)) -> of_incarnation k i = false).
      { intros i H. apply filter_In in H as [H _]. apply Nat.eqb_neq, N, H. }
      induction (without (of_incarnation l) (items s)) as [|i its IH]; simpl; [reflexivity|].
      rewrite (Z0 i (or_introl eq_refl)). simpl. apply IH. intros; apply Z0; right; assumption. }
    simpl. f_equal. induction (items s) as [|i its IH]; simpl; [reflexivity|].
    specialize (IH (fun x h => N x (or_intror h))).
    destruct (of_incarnation l i); simpl; [|exact IH]. rewrite G. unfold of_incarnation at 1. simpl. rewrite Nat.eqb_refl. simpl.
    destruct (f i); simpl; rewrite IH; reflexivity.
  Qed.

  (* A hand-over: incarnation l ends, the draining handle k resumes its state, and the next process n begins from a snapshot. Then l and n hold
     nothing, and all others hold what they held. (By the theorem above, k holds what l held.) *)
  Theorem hand_over (s : state V) (l k n : nat) :
    (forall i, In i (items s) -> incarnation i <> k /\ incarnation i <> n) -> k <> l -> k <> n ->
    let s' := step limited ops (step limited ops s (Suspend l)) (Resume k (length (stored s))) in
    filter (of_incarnation l) (items s') = [] /\ filter (of_incarnation n) (items s') = [] /\
    forall j, j <> l -> j <> k -> filter (of_incarnation j) (items s') = filter (of_incarnation j) (items s).
  Proof.
    intros N Kl Kn s'.
    assert (E : items s' = without (of_incarnation l) (items s) ++ map (moved_to k) (filter (of_incarnation l) (items s))).
    { unfold s'. simpl. rewrite nth_error_app2 by lia. rewrite Nat.sub_diag. reflexivity. }
    assert (M : forall j (xs : list (item V)), j <> k -> filter (of_incarnation j) (map (moved_to k) xs) = []).
    { intros j xs H. induction xs as [|x xs IH]; simpl; [reflexivity|].
      assert (of_incarnation j (moved_to k x) = false) as -> by (apply Nat.eqb_neq; simpl; congruence). exact IH. }
    assert (L : forall xs : list (item V), filter (of_incarnation l) (without (of_incarnation l) xs) = []).
    { unfold without. induction xs as [|x xs IH]; simpl; [reflexivity|]. destruct (of_incarnation l x) eqn:F; simpl; [exact IH|].
      rewrite F. exact IH. }
    assert (W : forall j (xs : list (item V)), j <> l -> filter (of_incarnation j) (without (of_incarnation l) xs) = filter (of_incarnation j) xs).
    { intros j xs H. unfold without. induction xs as [|x xs IH]; simpl; [reflexivity|].
      destruct (of_incarnation l x) eqn:F; simpl; rewrite IH; [|reflexivity].
      apply Nat.eqb_eq in F. assert (of_incarnation j x = false) as -> by (apply Nat.eqb_neq; congruence). reflexivity. }
    assert (Z0 : forall xs : list (item V), (forall i, In i xs -> incarnation i <> n) -> filter (of_incarnation n) xs = []).
    { induction xs as [|x xs IH]; intros H; simpl; [reflexivity|].
      assert (of_incarnation n x = false) as -> by (apply Nat.eqb_neq, H; left; reflexivity). apply IH. intros i I. apply H. right. exact I. }
    rewrite E. split; [|split].
    - rewrite filter_app, M, L by congruence. reflexivity.
    - rewrite filter_app, M, app_nil_r by congruence. apply Z0. intros i I. apply filter_In in I as [I _]. apply N, I.
    - intros j Jl Jk. rewrite filter_app, M, app_nil_r by assumption. apply W. exact Jl.
  Qed.
End Continues.

Section M.
  Variable scale e : R.
  Variables bound grid : Z.
  Variable dim : nat.
  Variable arrange : nat -> list nat -> list nat.
  Variable scheduler : history -> move -> R.
  Variable decision : name.
  Variables state_number successors : nat.

  Notation clicks := None.
  Notation lim := false.
  Notation both := (pair grid clicks arrange).
  Notation mine := (named decision).
  Notation possible h := (0 < played scheduler h).
  Notation weight := (counted clicks mine).

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis bound_is_nonneg : (0 <= bound)%Z.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.
  Hypothesis noise_is_large_enough : IZR (bound * grid) <= e * scale.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_the_unit_differs : forall past l n a b, 0 < scheduler past (Arrive l n a b) -> mine n = true \/ a = b.

  (* A released batch has the same sums after a move as before it. *)
  Theorem sums_continue left (s : state (option Z)) l k b : (forall i, In i (items s) -> incarnation i <> k) ->
    sums bound grid dim (filter (in_batch k b) (items (step lim (world grid clicks arrange left)
      (step lim (world grid clicks arrange left) s (Suspend l)) (Resume k (length (stored s)))))) =
    sums bound grid dim (filter (in_batch l b) (items s)).
  Proof.
    intros N. pose (f := fun i : item (option Z) => match at_stage i with Placed c _ _ => c =? b | _ => false end).
    pose proof (a_state_continues lim (world grid clicks arrange left) s l k f f N (fun i => eq_refl)) as E.
    assert (F : forall k (xs : list (item (option Z))), filter (in_batch k b) xs = filter (fun i => of_incarnation k i && f i) xs).
    { intros j xs. apply filter_ext. intros i. unfold in_batch, of_incarnation, f. destruct (at_stage i); rewrite ?andb_false_r; reflexivity. }
    rewrite !F, E. unfold sums. apply map_ext. intros j. clear. induction (filter _ _) as [|i xs IH]; simpl; [reflexivity|].
    rewrite IH. reflexivity.
  Qed.

  (* One state is opened by at most n incarnations, all others by one. *)
  Fixpoint openings (h : history) : nat :=
    match h with
    | [] => O
    | ev :: past => (openings past + match fst ev with
        Resume _ j => if (j =? state_number) && (j <? length (stored (run lim both past))) then 1 else O | _ => O end)%nat
    end.
  Hypothesis other_states_are_opened_once : forall past l j t, j <> state_number ->
    nth_error (stored (run lim both past)) j = Some t -> opened t = true -> scheduler past (Resume l j) = 0.
  Hypothesis at_most_successors : forall h, possible h -> (openings h <= successors)%nat.
  Hypothesis a_successor : (1 <= successors)%nat.

  Definition good (h : history) : Prop :=
    match nth_error (stored (run lim both h)) state_number with
    | None => copied grid clicks arrange mine h = O /\ openings h = O
    | Some t => (all weight (held t) <= 1)%nat /\
      if opened t then (copied grid clicks arrange mine h + 1 <= openings h)%nat else copied grid clicks arrange mine h = O /\ openings h = O
    end.

  Lemma nth_replace {A} (x : A) l : forall j i, nth_error (replace j x l) i =
    if (i =? j) && (j <? length l) then Some x else nth_error l i.
  Proof.
    induction l as [|y l IH]; intros [|j] [|i]; simpl; try reflexivity.
    - destruct (i =? j); reflexivity.
    - rewrite IH. change (S j <? S (length l)) with (j <? length l). reflexivity.
  Qed.

  Lemma good_always h : possible h -> good h.
  Proof.
    induction h as [|ev past IH]; intros P.
    - unfold good. simpl. destruct state_number; simpl; auto.
    - apply played_before in P as [P E]; [|assumption]. specialize (IH P).
      assert (Same : (stored (run lim both (ev :: past)) = stored (run lim both past) /\
        copied grid clicks arrange mine (ev :: past) = copied grid clicks arrange mine past /\ openings (ev :: past) = openings past) \/
        (exists l, fst ev = Suspend l) \/ (exists l j, fst ev = Resume l j)).
      { unfold copied. simpl. destruct (fst ev); simpl; try (left; repeat split; try reflexivity; lia); try (right; left; eauto; fail); try (right; right; eauto; fail).
        left. repeat match goal with |- context [match ?x with _ => _ end] => destruct x end; simpl; repeat split; try reflexivity; lia. }
      destruct Same as [[A [B C]]|[[l A]|[l [j A]]]].
      + unfold good in *. rewrite A, B, C. exact IH.
      + unfold good in *. unfold copied in *. simpl. rewrite A. simpl. set (s := run lim both past) in *.
        rewrite !Nat.add_0_r. destruct (Nat.lt_ge_cases state_number (length (stored s))) as [L|L].
        * rewrite nth_error_app1 by assumption. exact IH.
        * rewrite nth_error_app2 by assumption.
          assert (nth_error (stored s) state_number = None) as F by (apply nth_error_None; assumption). rewrite F in IH.
          destruct (state_number - length (stored s))%nat as [|x]; [|destruct x; simpl; exact IH]. simpl.
          split; [|exact IH].
          pose proof (released_at_most_once lim both weight (fun _ _ => eq_refl) (fun _ _ _ _ => Nat.le_refl _)
            (counted_enters clicks mine) (counted_is_limited clicks mine both) past) as O.
          pose proof (one_decision_is_decided_once grid clicks arrange decision past) as D. unfold decided in D.
          pose proof (all_split weight (of_incarnation l) (items s)). change (limited None) with false in *. unfold present in O. fold s in O. lia.
      + unfold good in *. unfold copied in *. simpl. rewrite A in *. simpl. set (s := run lim both past) in *.
        destruct (nth_error (stored s) j) as [t|] eqn:T.
        * assert (L : (j < length (stored s))%nat) by (apply nth_error_Some; congruence).
          assert (L' : j <? length (stored s) = true) by (apply Nat.ltb_lt; exact L). rewrite L'. simpl. rewrite nth_replace, L'.
          destruct (Nat.eq_dec j state_number) as [->|N].
          -- rewrite Nat.eqb_refl. simpl. rewrite T in IH. change (limited None) with false in *; destruct (opened t); lia.
          -- assert (j =? state_number = false) as -> by (apply Nat.eqb_neq; exact N).
             assert (state_number =? j = false) as -> by (apply Nat.eqb_neq; congruence). simpl.
             destruct (opened t) eqn:Q; [rewrite (other_states_are_opened_once past l j t N T Q) in E; lra|].
             rewrite !Nat.add_0_r. exact IH.
        * assert (L : (length (stored s) <= j)%nat) by (apply nth_error_None; exact T).
          assert (j <? length (stored s) = false) as -> by (apply Nat.ltb_ge; exact L). rewrite andb_false_r, !Nat.add_0_r. exact IH.
  Qed.

  Theorem theorem_M n : private (INR successors * e) (transcript scale bound grid dim clicks arrange scheduler true n)
    (transcript scale bound grid dim clicks arrange scheduler false n).
  Proof.
    apply loss_of_unit with (mine := mine); auto; try discriminate. intros h P.
    pose proof (one_decision_is_decided_once grid clicks arrange decision h). pose proof (at_most_successors h P).
    pose proof (good_always h P) as G. unfold good in G.
    destruct (nth_error _ state_number) as [t|]; [|lia]. destruct (opened t); lia.
  Qed.
End M.
