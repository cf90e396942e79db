(* Theorem J (joint privacy). A whole request is private: which row, arm, reward, and whether it is cancelled. It enters
   one table, as a vector that differs in the two worlds and has an L1 norm of at most `grid`, or as nothing, which is [].
   Tables are released with noise for 2 * grid, by their numbers of entries, which are equal in both worlds: a scheduler
   sees every Enter, its pair of vectors and all coins, so more than anybody who does not see the decision itself. *)
Require Import Sums Laplace Transcripts.

(* A request in a table. The vectors are what it adds in the left world, and in the right. *)
Record entry := Entry { request : nat; table : nat; vectors : bool -> list Z }.

Inductive move :=
| Public (n : nat)                          (* a coin, the clock, a snapshot, another's decision, an arm that comes or goes *)
| Enter (r t : nat) (left right : list Z)   (* request r is so old that it enters table t *)
| Hand (t u : nat)                          (* what is in t goes to u: a contribution that its leader accepts, or a state that moves *)
| Release (t : nat)
| Drop (t : nat).                           (* a crash, or a contribution that is lost *)

Definition move_dec (m n : move) : {m = n} + {m <> n}.
Proof. repeat decide equality. Defined.

(* The tables, and the requests that have entered one. *)
Record state := State { entries : list entry; entered : list nat }.

Definition in_table t e := table e =? t.
Definition handed t u e := if in_table t e then Entry (request e) u (vectors e) else e.

Definition step (s : state) (m : move) : state :=
  match m with
  | Public _ => s
  | Enter r t a b =>
    if existsb (Nat.eqb r) (entered s) then s (* its place is empty *)
    else State (Entry r t (fun left : bool => if left then a else b) :: entries s) (r :: entered s)
  | Hand t u => State (map (handed t u) (entries s)) (entered s)
  | Release t | Drop t => State (filter (fun e => negb (in_table t e)) (entries s)) (entered s)
  end.

Notation history := (list (move * list Z)).
Fixpoint run (h : history) : state := match h with [] => State [] [] | e :: past => step (run past) (fst e) end.

Section J.
  Variable scale e : R.
  Variable grid : Z.
  Variable dim : nat.                       (* numbers of a table: two for each cell *)
  Variable scheduler : history -> move -> R.
  Variable mine : nat.                      (* the request that differs *)

  Notation norm := (norm dim).
  Notation fit := (fit dim grid). (* a vector that is too long enters as nothing *)
  Definition sum_of left j l := fold_right (fun x s => (nth j (fit (vectors x left)) 0 + s)%Z) 0%Z l.
  Definition sums left l := map (fun j => sum_of left j l) (seq 0 dim).
  Definition content left (past : history) m :=
    match m with Release t => Some (sums left (filter (in_table t) (entries (run past)))) | _ => None end.

  Notation transcript := (transcript_of scale content scheduler).
  Notation possible h := (0 < chosen scheduler h).

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.
  Hypothesis noise_is_large_enough : IZR (2 * grid) <= e * scale.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_one_request_differs : forall past r t a b, 0 < scheduler past (Enter r t a b) -> r = mine \/ a = b.

  Definition is_mine x := request x =? mine.
  Definition count (l : list entry) := length (filter is_mine l).
  Definition same x := is_mine x = false -> vectors x true = vectors x false.

  (* One entry goes and another comes: a table moves by at most twice the norm of an entry. *)
  Lemma sums_distance l : (forall x, In x l -> same x) ->
    (distance (sums true l) (sums false l) <= 2 * grid * Z.of_nat (count l))%Z.
  Proof.
    unfold sums. induction l as [|x l IH]; intros S.
    - simpl. induction (seq 0 dim); simpl; lia.
    - specialize (IH (fun y I => S y (or_intror I))). specialize (S x (or_introl eq_refl)).
      assert (D : forall js, (distance (map (fun j => sum_of true j (x :: l)) js) (map (fun j => sum_of false j (x :: l)) js) <=
        fold_right (fun j s => (Z.abs (nth j (fit (vectors x true)) 0 - nth j (fit (vectors x false)) 0) + s)%Z) 0%Z js +
        distance (map (fun j => sum_of true j l) js) (map (fun j => sum_of false j l) js))%Z).
      { induction js as [|j js IHj]; cbn [map distance fold_right]; [lia|].
        change (sum_of true j (x :: l)) with (nth j (fit (vectors x true)) 0 + sum_of true j l)%Z.
        change (sum_of false j (x :: l)) with (nth j (fit (vectors x false)) 0 + sum_of false j l)%Z. lia. }
      specialize (D (seq 0 dim)). unfold count in *. simpl filter. destruct (is_mine x) eqn:M; simpl length.
      + pose proof (norm_fit dim grid grid_is_nonneg (vectors x true)) as A. pose proof (norm_fit dim grid grid_is_nonneg (vectors x false)) as B. unfold norm in A, B.
        assert (forall js, (fold_right (fun j s => (Z.abs (nth j (fit (vectors x true)) 0 - nth j (fit (vectors x false)) 0) + s)%Z) 0%Z js
          <= fold_right (fun j s => (Z.abs (nth j (fit (vectors x true)) 0) + s)%Z) 0%Z js +
             fold_right (fun j s => (Z.abs (nth j (fit (vectors x false)) 0) + s)%Z) 0%Z js)%Z) as T
          by (induction js; cbn [fold_right]; lia).
        specialize (T (seq 0 dim)). lia.
      + rewrite (S M) in D. assert (forall v js, fold_right (fun j s => (Z.abs (nth j v 0 - nth j v 0) + s)%Z) 0%Z js = 0%Z) as E
          by (induction js; cbn [fold_right]; lia).
        rewrite E in D. lia.
  Qed.

  Lemma worlds_are_alike past m : alike (content true past m) (content false past m).
  Proof. destruct m; simpl; try exact I. unfold sums. rewrite !map_length. reflexivity. Qed.

  (* The request is in one table at most, and in one release at most. *)
  Fixpoint released (h : history) : nat :=
    match h with
    | [] => O
    | ev :: past =>
      (released past + match fst ev with Release t => count (filter (in_table t) (entries (run past))) | _ => O end)%nat
    end.

  Lemma count_split f l : (count (filter f l) + count (filter (fun x => negb (f x)) l) = count l)%nat.
  Proof.
    unfold count. induction l as [|x l IH]; simpl; [reflexivity|]. destruct (f x); simpl; destruct (is_mine x); simpl; lia.
  Qed.

  Lemma once h : (count (entries (run h)) + released h <= if existsb (Nat.eqb mine) (entered (run h)) then 1 else 0)%nat.
  Proof.
    induction h as [|ev past IH]; [simpl; lia|]. simpl. destruct (fst ev) as [n|r t a b|t u|t|t]; simpl.
    - lia.
    - destruct (existsb (Nat.eqb r) (entered (run past))) eqn:E; simpl; [lia|]. unfold count in *. simpl.
      unfold is_mine at 1. simpl. destruct (r =? mine) eqn:M; simpl.
      + apply Nat.eqb_eq in M. subst r. rewrite E in IH. rewrite Nat.eqb_refl. simpl. lia.
      + rewrite Nat.eqb_sym, M. simpl. lia.
    - assert (forall l, count (map (handed t u) l) = count l) as ->; [|lia].
      unfold count. clear. induction l as [|x l IH]; [reflexivity|]. simpl.
      assert (is_mine (handed t u x) = is_mine x) as -> by (unfold handed; destruct (in_table t x); reflexivity).
      destruct (is_mine x); simpl; lia.
    - pose proof (count_split (in_table t) (entries (run past))). lia.
    - pose proof (count_split (in_table t) (entries (run past))). lia.
  Qed.

  Lemma others_are_same h : possible h -> forall x, In x (entries (run h)) -> same x.
  Proof.
    induction h as [|ev past IH]; simpl; intros P x I; [destruct I|].
    apply (chosen_before _ scheduler_is_a_distribution) in P as [P Q]. specialize (IH P).
    destruct (fst ev) as [n|r t a b|t u|t|t] eqn:M; simpl in I; auto.
    - destruct (existsb _ _); simpl in I; [auto|]. destruct I as [<-|I]; [|auto]. unfold same, is_mine. simpl. intros N.
      destruct (only_one_request_differs _ _ _ _ _ Q) as [->|E]; [rewrite Nat.eqb_refl in N; discriminate|exact E].
    - apply in_map_iff in I as [y [<- I]]. specialize (IH y I). unfold same, is_mine, handed in *. destruct (in_table t y); exact IH.
    - apply filter_In in I as [I _]. auto.
    - apply filter_In in I as [I _]. auto.
  Qed.

  Lemma gaps_at_most_released h : possible h -> (gaps content h <= 2 * grid * Z.of_nat (released h))%Z.
  Proof.
    induction h as [|ev past IH]; intros P; [simpl; lia|].
    apply (chosen_before _ scheduler_is_a_distribution) in P as [P _]. specialize (IH P). cbn [gaps released].
    destruct (fst ev) as [n|r t a b|t u|t|t] eqn:M; cbn [content gap]; rewrite ?Z.add_0_r, ?Nat.add_0_r; try exact IH.
    pose proof (sums_distance (filter (in_table t) (entries (run past)))) as D.
    assert (forall x, In x (filter (in_table t) (entries (run past))) -> same x) as S
      by (intros x I; apply filter_In in I as [I _]; apply (others_are_same past P x I)).
    specialize (D S). rewrite Nat2Z.inj_add. lia.
  Qed.

  Theorem theorem_J n : private e (transcript true n) (transcript false n).
  Proof.
    apply loss_of_gaps; auto using worlds_are_alike. intros h P.
    apply Rle_trans with (2 := noise_is_large_enough). apply IZR_le.
    pose proof (gaps_at_most_released h P) as G. pose proof (once h) as O. destruct (existsb _ _) in O; nia.
  Qed.

  (* Of every set of transcripts, both worlds have a probability: the theorem does not speak of nothing. *)
  Lemma transcripts_have_masses left n S : exists p, mass (transcript left n) S p /\ 0 <= p <= 1.
  Proof.
    apply mass_exists with (T := fun _ => True); [|auto]. apply transcripts_are_a_distribution; auto using move_dec.
  Qed.
End J.

(* Epsilon is 1: rewards of 0 and 1, two cells, noise of scale 2. All of epsilon is lost, so the noise is not too large: the
   request is in the first cell with a reward in one world, and in the second in the other. *)
Definition cells : history := [(Enter 0 5 [1%Z; 0%Z] [0%Z; 1%Z], [])].
Example joint_loses_all_of_epsilon y : y = [1%Z; 0%Z] ->
  told 2 (content 1 2 true cells (Release 5)) y = exp 1 * told 2 (content 1 2 false cells (Release 5)) y.
Proof.
  intros ->. simpl. unfold laplace. simpl Z.abs. replace (- (0 / 2)) with 0 by field. rewrite exp_0.
  replace (exp 1) with (exp (1 / 2) * exp (1 / 2)) by (rewrite <- exp_plus; f_equal; field).
  replace (exp (- (1 / 2))) with (/ exp (1 / 2)) by (rewrite exp_Ropp; reflexivity). field.
  split; [apply Rgt_not_eq, exp_pos|]. pose proof (q_range 2 ltac:(lra)). lra.
Qed.

(* With noise for one entry, which a table of sums has, the loss is twice as large. *)
Example joint_noise_for_one_entry y : y = [1%Z; 0%Z] ->
  told 1 (content 1 2 true cells (Release 5)) y = exp 2 * told 1 (content 1 2 false cells (Release 5)) y.
Proof.
  intros ->. simpl. unfold laplace. simpl Z.abs. replace (- (0 / 1)) with 0 by field. rewrite exp_0.
  replace 2 with (1 + 1) by ring. rewrite exp_plus.
  replace (exp (- (1 / 1))) with (/ exp 1) by (replace (1 / 1) with 1 by field; rewrite exp_Ropp; reflexivity). field.
  split; [apply Rgt_not_eq, exp_pos|]. pose proof (q_range 1 ltac:(lra)). lra.
Qed.
