(* Whether the theorems say something. An example that satisfies all hypotheses of Theorem P, and loses all of its
   epsilon. Then machines with one fault each, for which the theorems are false. *)
Require Import Sums Laplace Transcripts Machine Worlds Once Unit TheoremP TheoremC.

(* Epsilon is 1: rewards of 0 and 1, and noise of scale 1. *)
Notation left_world := (world 1 None (fun _ l => l) true).
Notation right_world := (world 1 None (fun _ l => l) false).

Lemma a_step_of_laplace : laplace 1 0 = exp 1 * laplace 1 (-1).
Proof.
  unfold laplace. simpl Z.abs. replace (- (0 / 1)) with (1 + - (1 / 1)) by field. rewrite exp_plus. ring.
Qed.

Lemma laplace_is_positive z : 0 < laplace 1 z.
Proof.
  unfold laplace. pose proof (q_range 1 Rlt_0_1). apply Rmult_lt_0_compat; [|apply exp_pos].
  apply Rmult_lt_0_compat; [lra|]. apply Rinv_0_lt_compat. lra.
Qed.

Lemma exp_grows x y : x < y -> forall c, 0 < c -> exp x * c < exp y * c.
Proof. intros L c H. apply Rmult_lt_compat_r; [exact H|apply exp_increasing; exact L]. Qed.

(* Moves that a list says, one after the other. *)
Definition script (moves : list move) (past : history) (m : move) : R :=
  if move_dec m (nth (length past) moves (Public 1)) then 1 else 0.

Lemma script_is_a_distribution moves past : subprobability (fun _ => True) (script moves past).
Proof.
  split; [intros m; unfold script; destruct (move_dec _ _); lra|]. intros l [D _].
  assert (A : total (script moves past) l <= if in_dec move_dec (nth (length past) moves (Public 1)) l then 1 else 0).
  { induction D as [|m l N D IH]; [simpl; lra|]. simpl total. unfold script at 1.
    destruct (move_dec m (nth (length past) moves (Public 1))) as [E|E].
    - destruct (in_dec move_dec (nth (length past) moves (Public 1)) (m :: l)) as [_|F]; [|exfalso; apply F; left; exact E].
      destruct (in_dec move_dec (nth (length past) moves (Public 1)) l) as [F|_]; [rewrite <- E in F; contradiction|lra].
    - destruct (in_dec move_dec (nth (length past) moves (Public 1)) l);
        destruct (in_dec move_dec (nth (length past) moves (Public 1)) (m :: l)) as [G|G]; try lra;
        try (exfalso; apply G; right; assumption). }
  destruct (in_dec _ _ _); lra.
Qed.

Notation the_decision := (Name 7 0 1).
Definition one_batch := [Decide 0 7 1; Arrive 0 the_decision (Some 0%Z) (Some 1%Z); Due 0 the_decision 5 [1%Z] None; Release 0 5].
Definition seen : history :=
  [(Release 0 5, [0%Z]); (Due 0 the_decision 5 [1%Z] None, []); (Arrive 0 the_decision (Some 0%Z) (Some 1%Z), []); (Decide 0 7 1, [])].

Example theorem_P_applies : private 1 (transcript 1 1 1 1 None (fun _ l => l) (script one_batch) true 4)
                                      (transcript 1 1 1 1 None (fun _ l => l) (script one_batch) false 4).
Proof.
  apply theorem_P with (decision := the_decision); try lra; try lia.
  - simpl. lra.
  - apply script_is_a_distribution.
  - intros past l n a b P. unfold script in P. destruct (move_dec _ _) as [E|]; [|lra].
    destruct (length past) as [|[|[|[|k]]]]; simpl in E; try discriminate; [|destruct k; discriminate].
    injection E as -> -> _ _. left. reflexivity.
  - intros past l j t _ _. unfold script. destruct (move_dec _ _) as [E|]; [|reflexivity].
    destruct (length past) as [|[|[|[|[|k]]]]]; simpl in E; discriminate.
Qed.

Example all_of_epsilon_is_lost :
  0 < transcript 1 1 1 1 None (fun _ l => l) (script one_batch) false 4 seen /\
  transcript 1 1 1 1 None (fun _ l => l) (script one_batch) true 4 seen =
    exp 1 * transcript 1 1 1 1 None (fun _ l => l) (script one_batch) false 4 seen.
Proof.
  assert (P : played (script one_batch) seen = 1).
  { unfold seen, played, chosen, script, one_batch. simpl fst. simpl length. simpl nth.
    repeat (destruct (move_dec _ _); [|congruence]). ring. }
  unfold transcript, transcript_of. simpl length. simpl Nat.eqb. cbv iota. fold (played (script one_batch)). rewrite P. simpl. repeat rewrite Rmult_1_l. repeat rewrite Rmult_1_r.
  split; [apply laplace_is_positive|]. apply a_step_of_laplace.
Qed.

(* A function that turns rewards over, and one that is too large: it counts as the largest reward. *)
Example functions_apply : map (apply 1 (Some [1%Z; 0%Z])) [0%Z; 1%Z] = [1%Z; 0%Z] /\ map (apply 1 (Some [0%Z; 7%Z])) [0%Z; 1%Z] = [0%Z; 1%Z].
Proof. split; reflexivity. Qed.

(* Noise of half the scale that epsilon = 1 needs. *)
Example half_noise : exists y, noised (/ 2) [0%Z] y > exp 1 * noised (/ 2) [1%Z] y /\ 0 < noised (/ 2) [1%Z] y.
Proof.
  assert (H : 0 < / 2) by lra. exists [0%Z]. simpl. unfold laplace. simpl Z.abs. pose proof (q_range _ H).
  assert (0 < (1 - q (/ 2)) / (1 + q (/ 2))) by (apply Rdiv_lt_0_compat; lra).
  replace (- (0 / / 2)) with (2 + - 2) by field. replace (- (1 / / 2)) with (- 2) by field. rewrite exp_plus, !Rmult_1_r.
  pose proof (exp_pos (- 2)). set (c := (1 - q (/ 2)) / (1 + q (/ 2))) in *.
  split; [|apply Rmult_lt_0_compat; assumption].
  apply Rlt_gt.
  replace (c * (exp 2 * exp (-2))) with (exp 2 * (c * exp (-2))) by ring.
  apply exp_grows; [lra|]. apply Rmult_lt_0_compat; assumption.
Qed.

(* The same machine with another step. *)
Section Faulty.
  Context (faulty : forall V, values V -> state V -> move -> state V).
  Fixpoint run_faulty {V} (ops : values V) (h : history) : state V :=
    match h with [] => start | ev :: past => faulty V ops (run_faulty ops past) (fst ev) end.
  Fixpoint answers_faulty (left : bool) (h : history) : R :=
    match h with
    | [] => 1
    | ev :: past => answers_faulty left past *
      told 1 (option_map (sums 1 1 1) (released (run_faulty (world 1 None (fun _ l => l) left) past) (fst ev))) (snd ev)
    end.
  (* What Theorem P denies. *)
  Definition leaks := exists h, adjacent (named the_decision) h /\ answers_faulty true h > exp 1 * answers_faulty false h.
End Faulty.

Lemma twice (a b : R) : a = laplace 1 0 * laplace 1 0 -> b = laplace 1 (-1) * laplace 1 (-1) -> a > exp 1 * b.
Proof.
  intros -> ->. rewrite a_step_of_laplace. pose proof (laplace_is_positive (-1)).
  replace (exp 1 * laplace 1 (-1) * (exp 1 * laplace 1 (-1))) with (exp (1 + 1) * (laplace 1 (-1) * laplace 1 (-1))) by (rewrite exp_plus; ring).
  apply Rlt_gt, exp_grows; [lra|]. apply Rmult_lt_0_compat; assumption.
Qed.

Ltac leak h := exists h; split; [simpl; tauto|]; apply twice; simpl; ring.

(* A batch that is not emptied when it is released. *)
Example released_again_leaks : leaks (fun V ops s m => match m with Release _ _ => s | _ => step false ops s m end).
Proof. leak ((Release 0 5, [0%Z]) :: seen). Qed.

(* An update that is believed again after its reward took effect, because the decision stays open. *)
Example duplicate_leaks : leaks (fun V ops s m =>
  match m with
  | Due l n b row f => with_items s (items s ++ map (entered b row f) (filter (due false l n) (items s)))
  | _ => step false ops s m
  end).
Proof.
  leak ((Release 0 6, [0%Z]) :: (Release 0 5, [0%Z]) :: (Due 0 the_decision 6 [1%Z] None, []) :: tl seen).
Qed.

(* A pilot that keeps its rewards: what counts in its batch by a function counts in its arm's batch too. *)
Example pilot_kept_leaks : leaks (fun V ops s m =>
  match m with
  | Due l n b row (Some f) =>
    with_items s (map (entered (S b) row None) (filter (due false l n) (items s)) ++
                  map (fun i => if due false l n i then entered b row (Some f) i else i) (items s))
  | _ => step false ops s m
  end).
Proof.
  leak ((Release 0 6, [0%Z]) :: (Release 0 5, [0%Z]) :: (Due 0 the_decision 5 [1%Z] (Some [0%Z; 1%Z]), []) :: tl (tl seen)).
Qed.

Definition contributed : history :=
  [(Contribute 0 0 3 1, []); (Due 0 the_decision 5 [1%Z] None, []); (Arrive 0 the_decision (Some 0%Z) (Some 1%Z), []);
   (Decide 0 7 1, []); (Lead 1, [])].

(* A leader that forgets which sequence numbers it accepted. *)
Example replay_leaks : leaks (fun V ops s m =>
  step false ops (State (items s) (net s) (stored s) (leads s) (fun _ _ => O) (requests s) (generations s)) m).
Proof.
  leak ((Release 1 5, [0%Z]) :: (Deliver 1 0, []) :: (Release 1 5, [0%Z]) :: (Deliver 1 0, []) :: contributed).
Qed.

(* Incarnations that lead the same generation, as a generation that is restored from a snapshot would. *)
Example same_generation_leaks : leaks (fun V ops s m =>
  step false ops (State (items s) (net s) (stored s) (leads s) (last s) (requests s) O) m).
Proof.
  leak ((Release 2 5, [0%Z]) :: (Deliver 2 0, []) :: (Lead 2, []) :: (Release 1 5, [0%Z]) :: (Deliver 1 0, []) :: contributed).
Qed.

(* A contribution that does not empty the sums. *)
Example kept_after_contributing_leaks : leaks (fun V ops s m =>
  match m with Contribute _ _ _ _ => with_items (step false ops s m) (items s) | _ => step false ops s m end).
Proof.
  leak ((Release 1 5, [0%Z]) :: (Deliver 1 0, []) :: (Release 0 5, [0%Z]) :: contributed).
Qed.

(* A snapshot that holds open sums: a crash that keeps what was open, for the restored incarnation. *)
Example open_sums_in_a_snapshot_leak : leaks (fun V ops s m =>
  match m with End l => with_items s (items s ++ map (moved_to (S l)) (items s)) | _ => step false ops s m end).
Proof.
  leak ((Release 1 5, [0%Z]) :: (Release 0 5, [0%Z]) :: (End 0, []) :: tl seen).
Qed.

(* No fault, but a state that two incarnations open: Theorem M needs its hypothesis, and n e is the loss. *)
Example two_successors_lose_twice : leaks (fun V ops => step false ops).
Proof.
  leak ((Release 2 5, [0%Z]) :: (Release 1 5, [0%Z]) :: (Resume 2 0, []) :: (Resume 1 0, []) :: (Suspend 0, []) :: tl seen).
Qed.

(* A hand-over: incarnation 1 keeps the state of incarnation 0, and incarnation 2 begins from a snapshot. Incarnation 1 alone has the reward. *)
Example a_hand_over left :
  let s := run false (world 1 None (fun _ l => l) left) ((Resume 1 0, []) :: (Suspend 0, []) :: tl seen) in
  map (fun l => sums 1 1 1 (filter (in_batch l 5) (items s))) [0; 1; 2]%nat = [[0%Z]; [if left then 0%Z else 1%Z]; [0%Z]].
Proof. destruct left; reflexivity. Qed.

(* An incarnation that goes on after its state was handed over. *)
Example lives_on_after_the_hand_over_leaks : leaks (fun V ops s m =>
  match m with Suspend l => with_items (step false ops s m) (items s) | _ => step false ops s m end).
Proof.
  leak ((Release 0 5, [0%Z]) :: (Release 1 5, [0%Z]) :: (Resume 1 0, []) :: (Suspend 0, []) :: tl seen).
Qed.
