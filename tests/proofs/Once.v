(* Each reward is in at most one release: proved of the transition system, for whatever is counted of a reward. *)
Require Import Sums Laplace Machine Worlds.

Section Once.
  Variable limited : bool.
  Context {V : Type}.
  Variable ops : values V.
  Variable weight : item V -> nat.

  Definition all (l : list (item V)) := list_sum (map weight l).

  (* What is counted: in open sums and open decisions, in messages that nobody accepted, and in states that nobody
     opened. These are the places from which a reward can still come into a release. *)
  Definition in_net (m : message V) := if taken m then O else all (content m).
  Definition in_store (t : suspended V) := if opened t then O else all (held t).
  Definition present (s : state V) :=
    (all (items s) + list_sum (map in_net (net s)) + list_sum (map in_store (stored s)))%nat.

  Definition decided_by (s : state V) (m : move) :=
    match m with Decide l u k => all (fresh limited ops l u (requests s) k) | _ => O end.
  Definition released_by (s : state V) (m : move) := match released s m with Some l => all l | None => O end.
  (* A state that is opened again. *)
  Definition copied_by (s : state V) (m : move) :=
    match m with
    | Resume _ j => match nth_error (stored s) j with Some t => if opened t then all (held t) else O | None => O end
    | _ => O
    end.

  Fixpoint along (f : state V -> move -> nat) (h : history) : nat :=
    match h with [] => O | e :: past => (along f past + f (run limited ops past) (fst e))%nat end.

  (* No two incarnations lead one generation, and a message that was accepted is never acceptable again. *)
  Definition orderly (s : state V) :=
    (forall l g, leads s l = Some g -> (g < generations s)%nat) /\
    (forall l k g, leads s l = Some g -> leads s k = Some g -> l = k) /\
    (forall m, In m (net s) -> taken m = true -> (generation m < generations s)%nat /\
      forall l, leads s l = Some (generation m) -> (sequence m <= last s l (sender m))%nat).

  Lemma in_replace {A} x y (l : list A) : forall j, In y (replace j x l) -> y = x \/ In y l.
  Proof.
    induction l; intros [|j]; simpl; try tauto.
    - intros [<-|H]; auto.
    - intros [<-|H]; auto. destruct (IHl j H); auto.
  Qed.

  (* An incarnation that leads nothing any more changes nothing for messages. *)
  Lemma orderly_alone s l its n st : orderly s -> (forall m, In m n -> In m (net s) \/ taken m = false) ->
    orderly (set_leads (State its n st (leads s) (last s) (requests s) (generations s)) l None).
  Proof.
    intros [A [B C]] N. unfold set_leads. repeat split; simpl in *.
    - intros k g. destruct (k =? l); [discriminate|]. apply A.
    - intros k k' g. destruct (k =? l), (k' =? l); try discriminate. apply B.
    - destruct (N m H) as [I|I]; [apply (C m I H0)|congruence].
    - intros k. destruct (k =? l); [discriminate|]. destruct (N m H) as [I|I]; [apply (C m I H0)|congruence].
  Qed.

  Lemma orderly_step s m : orderly s -> orderly (step limited ops s m).
  Proof.
    intros O. assert (Same : forall its st r, orderly (State its (net s) st (leads s) (last s) r (generations s))) by (intros; exact O).
    pose proof O as [A [B C]].
    destruct m; simpl; unfold with_items; try apply Same; try exact O; try (apply orderly_alone; auto; fail).
    - destruct (limited && _); [apply Same|exact O].
    - split; [exact A|]. split; [exact B|]. simpl. intros m I T. apply in_app_or in I as [I|[<-|[]]]; [apply C; assumption|discriminate].
    - destruct (nth_error (net s) j) as [t|] eqn:E; [|exact O]. unfold accepts.
      destruct (leads s l) as [g|] eqn:L; [|exact O].
      destruct ((g =? generation t) && (last s l (sender t) <? sequence t)) eqn:K; [|exact O].
      apply andb_prop in K as [K1 K2]. apply Nat.eqb_eq in K1. apply Nat.ltb_lt in K2. subst g.
      split; [exact A|]. split; [exact B|]. simpl. intros m I T. apply in_replace in I as [->|I].
      + simpl. split; [apply (A l), L|]. intros k Lk. rewrite (B _ _ _ Lk L), !Nat.eqb_refl. simpl. lia.
      + destruct (C m I T) as [C1 C2]. split; [exact C1|]. intros k Lk. specialize (C2 k Lk).
        destruct ((k =? l) && (sender m =? sender t)) eqn:Q; [|exact C2].
        apply andb_prop in Q as [Q1 Q2]. apply Nat.eqb_eq in Q1, Q2. subst k. rewrite Q2 in C2. lia.
    - split; [|split]; simpl.
      + intros k g. destruct (k =? l).
        * intros H. injection H as <-. lia.
        * intros H. specialize (A k g H). lia.
      + intros k k' g. destruct (k =? l) eqn:K, (k' =? l) eqn:K'; intros H H';
          try (apply Nat.eqb_eq in K); try (apply Nat.eqb_eq in K'); subst; auto.
        * injection H as <-. specialize (A _ _ H'). lia.
        * injection H' as <-. specialize (A _ _ H). lia.
        * apply (B k k' g); assumption.
      + intros m I T. destruct (C m I T) as [C1 C2]. split; [lia|]. intros k Lk.
        destruct (k =? l); [injection Lk as Lk; lia|]. apply C2, Lk.
    - destruct (nth_error (stored s) j); [apply Same|exact O].
  Qed.

  Theorem orderly_run h : orderly (run limited ops h).
  Proof.
    induction h; simpl; [|apply orderly_step; assumption].
    unfold orderly, start. simpl. split; [discriminate|]. split; [discriminate|]. tauto.
  Qed.

  Context (weight_moves : forall l i, weight (moved_to l i) = weight i).
  Context (weight_arrives : forall a b i, waiting (at_stage i) = true -> (weight (received ops a b i) <= weight i)%nat).
  Context (weight_enters : forall l n b row f i, due limited l n i = true -> (weight (entered b row f i) <= weight i)%nat).
  Context (weight_is_limited : forall l u r coin its, limited = true -> existsb (token l u r) its = true ->
    let rest := without (token l u r) its in
    (all (refill (in_request l u r) (limit ops coin (map value (filter (in_request l u r) rest))) rest) <= all its)%nat).

  Lemma all_app l m : all (l ++ m) = (all l + all m)%nat.
  Proof. unfold all. rewrite map_app. apply list_sum_app. Qed.

  Lemma all_split f l : all l = (all (filter f l) + all (without f l))%nat.
  Proof. unfold all, without. induction l; simpl; [reflexivity|]. destruct (f a); simpl; lia. Qed.

  Lemma all_map_le f g l : (forall i, g i = true -> (weight (f i) <= weight i)%nat) ->
    (all (map (fun i => if g i then f i else i) l) <= all l)%nat.
  Proof. intros H. unfold all. induction l; simpl; [lia|]. specialize (H a). destruct (g a); [specialize (H eq_refl)|]; lia. Qed.

  Lemma all_moved k l : all (map (moved_to k) l) = all l.
  Proof. unfold all. rewrite map_map. f_equal. apply map_ext. intros. apply weight_moves. Qed.

  Lemma sum_replace {A} (f : A -> nat) x y l : forall j, nth_error l j = Some y ->
    (list_sum (map f (replace j x l)) + f y = list_sum (map f l) + f x)%nat.
  Proof.
    induction l as [|a l IH]; intros [|j] E; simpl in *; try discriminate.
    - injection E as ->. lia.
    - specialize (IH j E). lia.
  Qed.

  (* Nothing appears but by a decision, or by opening a state again. *)
  Lemma present_step s m : orderly s ->
    (released_by s m + present (step limited ops s m) <= present s + decided_by s m + copied_by s m)%nat.
  Proof.
    intros [_ [_ C]]. unfold present, released_by, decided_by, copied_by.
    destruct m; simpl; unfold with_items, set_leads; simpl; try lia.
    - rewrite all_app. lia.
    - pose proof (all_map_le (received ops left right) (waits l n) (items s)) as H.
      assert (forall i, waits l n i = true -> (weight (received ops left right i) <= weight i)%nat).
      { intros i W. apply weight_arrives. unfold waits in W. apply andb_prop in W. tauto. }
      specialize (H H0). lia.
    - rewrite (all_split (fun i => (incarnation i =? l) && named (decision i) n && negb (placed (at_stage i))) (items s)). lia.
    - destruct (limited && existsb (token l u r) (items s)) eqn:E; simpl; [|lia]. apply andb_prop in E as [L E].
      pose proof (weight_is_limited l u r coin _ L E) as H. simpl in H. lia.
    - pose proof (all_map_le (entered b row f) (due limited l n) (items s) (weight_enters l n b row f)). lia.
    - rewrite (all_split (in_batch l b) (items s)). lia.
    - rewrite (all_split (in_batch l b) (items s)). lia.
    - rewrite map_app, list_sum_app, (all_split (fun i => of_incarnation l i && placed (at_stage i)) (items s)). simpl.
      cbn [in_net taken content]. lia.
    - destruct (nth_error (net s) j) as [t|] eqn:E; [|lia]. destruct (accepts s l t) eqn:K; simpl; [|lia].
      rewrite all_app, all_moved.
      pose proof (sum_replace in_net (Message (generation t) (sender t) (sequence t) (content t) true) t _ j E) as R.
      cbn [in_net taken content] in R. unfold in_net at 2 in R. unfold accepts in K.
      destruct (leads s l) as [g|] eqn:L; [|discriminate]. apply andb_prop in K as [K1 K2].
      apply Nat.eqb_eq in K1. apply Nat.ltb_lt in K2. subst g.
      destruct (taken t) eqn:T; [|lia].
      pose proof (proj2 (C t (nth_error_In _ _ E) T) l L). lia.
    - rewrite (all_split (of_incarnation l) (items s)). lia.
    - rewrite map_app, list_sum_app, (all_split (of_incarnation l) (items s)). simpl. cbn [in_store opened held]. lia.
    - destruct (nth_error (stored s) j) as [t|] eqn:E; [|lia]. simpl. rewrite all_app, all_moved.
      pose proof (sum_replace in_store (Suspended (held t) true) t _ j E) as R.
      cbn [in_store opened held] in R. unfold in_store at 2 in R. destruct (opened t); lia.
  Qed.

  Theorem released_at_most_once h :
    (along released_by h + present (run limited ops h) <= along decided_by h + along copied_by h)%nat.
  Proof.
    induction h as [|e past IH]; [apply Nat.le_refl|].
    pose proof (present_step (run limited ops past) (fst e) (orderly_run past)). simpl in *. lia.
  Qed.
End Once.

(* A property of all rewards, wherever they are. *)
Section Everywhere.
  Variable limited : bool.
  Context {V : Type}.
  Variable ops : values V.
  Variable Q : item V -> Prop.

  Definition everywhere (s : state V) :=
    (forall i, In i (items s) -> Q i) /\
    (forall m i, In m (net s) -> In i (content m) -> Q i) /\
    (forall t i, In t (stored s) -> In i (held t) -> Q i).

  Context (fresh_ones : forall l u r k i, In i (fresh limited ops l u r k) -> Q i).
  Context (moving : forall l i, Q i -> Q (moved_to l i)).
  Context (entering : forall b row f i, Q i -> Q (entered b row f i)).
  Context (limiting : forall l u r coin its, limited = true -> (forall i, In i its -> Q i) ->
    forall i, In i (refill (in_request l u r) (limit ops coin (map value (filter (in_request l u r) its))) its) -> Q i).

  Lemma everywhere_step s m :
    (forall l n a b i, m = Arrive l n a b -> decision i = n -> Q i -> Q (received ops a b i)) ->
    everywhere s -> everywhere (step limited ops s m).
  Proof.
    intros R [A [B C]].
    assert (W : forall f i, In i (without f (items s)) -> Q i).
    { intros f i H. apply filter_In in H as [H _]. auto. }
    destruct m; simpl; unfold with_items, set_leads; simpl; try (split; [|split]; simpl; eauto; fail).
    - split; [|split]; simpl; eauto. intros i H. apply in_app_or in H as [H|H]; eauto.
    - split; [|split]; simpl; eauto. intros i H. apply in_map_iff in H as [x [<- H]].
      destruct (waits l n x) eqn:E; [|auto]. apply (R l n); auto.
      unfold waits, named in E. destruct (name_dec (decision x) n); [assumption|]. rewrite andb_false_r in E. discriminate.
    - destruct (limited && _) eqn:L; [|split; [|split]; eauto]. apply andb_prop in L as [L _]. split; [|split; eauto]; simpl.
      intros i H. revert H. apply limiting; [exact L|]. intros x H. apply (W _ _ H).
    - split; [|split]; simpl; eauto. intros i H. apply in_map_iff in H as [x [<- H]]. destruct (due _ _ _ x); auto.
    - split; [|split]; simpl; eauto. intros m i H I. apply in_app_or in H as [H|[<-|[]]]; eauto.
      simpl in I. apply filter_In in I as [I _]. auto.
    - destruct (nth_error (net s) j) as [t|] eqn:E; [|split; [|split]; eauto].
      apply nth_error_In in E. destruct (accepts s l t); [|split; [|split]; eauto]. split; [|split]; simpl; eauto.
      + intros i H. apply in_app_or in H as [H|H]; [auto|]. apply in_map_iff in H as [x [<- H]]. eauto.
      + intros m i H I. apply in_replace in H as [->|H]; simpl in *; eauto.
    - split; [|split]; simpl; eauto. intros t i H I. apply in_app_or in H as [H|[<-|[]]]; eauto.
      simpl in I. apply filter_In in I as [I _]. auto.
    - destruct (nth_error (stored s) j) as [t|] eqn:E; [|split; [|split]; eauto].
      apply nth_error_In in E. split; [|split]; simpl; eauto.
      + intros i H. apply in_app_or in H as [H|H]; [auto|]. apply in_map_iff in H as [x [<- H]]. eauto.
      + intros m i H I. apply in_replace in H as [->|H]; simpl in *; eauto.
  Qed.
End Everywhere.
