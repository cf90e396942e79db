(* Theorem C (a fleet with one noise). Messages may be lost, repeated, delayed and reordered, to any incarnation; handles may
   crash, be restored, lead, contribute and be alone at any time; and any number of handles may lead at once.

   That only handles of the fleet make messages, and that sealed bytes tell nothing, is the cryptography's part. *)
Require Import Sums Laplace Machine Worlds Once Unit TheoremL.

Section C.
  Variable grid : Z.
  Variable clicks : option nat.
  Variable arrange : nat -> list nat -> list nat.

  Notation lim := (limited clicks).
  Notation one := (world grid clicks arrange).

  (* Whatever happens, no incarnation accepts a message that was accepted before. *)
  Theorem messages_are_accepted_once left h l m :
    In m (net (run lim (one left) h)) -> taken m = true -> accepts (run lim (one left) h) l m = false.
  Proof.
    intros I T. pose proof (orderly_run lim (one left) h) as [_ [_ O]]. destruct (O m I T) as [_ N].
    unfold accepts. destruct (leads _ l) as [g|] eqn:E; [|reflexivity].
    destruct (g =? generation m) eqn:G; [|reflexivity]. apply Nat.eqb_eq in G. subst g. specialize (N l E).
    simpl. apply Nat.ltb_ge. exact N.
  Qed.

  (* In each world, the reward of a decision d is in at most one release of all incarnations together, and once. *)
  Theorem each_reward_is_released_once left d h :
    along lim (one left) (copied_by (counted clicks (named d))) h = O ->
    (along lim (one left) (released_by (counted clicks (named d))) h <= 1)%nat.
  Proof.
    intros Z0. pose proof (released_at_most_once lim (one left) (counted clicks (named d))) as O.
    specialize (O (fun _ _ => eq_refl) (fun _ _ _ _ => Nat.le_refl _) (counted_enters clicks (named d)) (counted_is_limited clicks (named d) (one left)) h).
    assert (D : along lim (one left) (decided_by lim (one left) (counted clicks (named d))) h = decided grid clicks arrange (named d) h).
    { assert (N : exists f, natural f (pair grid clicks arrange) (one left)) by (destruct left; eauto using left_natural, right_natural).
      destruct N as [f N]. unfold decided. clear - N. induction h as [|ev past IH]; [reflexivity|]. simpl. rewrite IH. f_equal.
      rewrite (run_natural _ _ _ _ N past). destruct (fst ev); try reflexivity. simpl. unfold fresh. rewrite !all_app. f_equal.
      - destruct lim; reflexivity.
      - unfold all. rewrite !map_map. reflexivity. }
    pose proof (one_decision_is_decided_once grid clicks arrange d h). lia.
  Qed.

  (* The length of a contribution depends on no reward. *)
  Theorem lengths_are_public h :
    map (fun m => length (content m)) (net (run lim (one true) h)) = map (fun m => length (content m)) (net (run lim (one false) h)).
  Proof.
    pose proof (control_is_equal grid clicks arrange h) as E. apply (f_equal (fun s => map (fun m => length (content m)) (net s))) in E.
    simpl in E. rewrite !map_map in E. unfold map_message in E. simpl in E.
    erewrite (map_ext (fun x => length (map _ (content x)))) in E by (intros; apply map_length).
    erewrite (map_ext (fun x => length (map _ (content x)))) in E by (intros; apply map_length).
    exact E.
  Qed.
End C.

Section Fleet.
  Variable scale e : R.
  Variables bound grid : Z.
  Variable dim : nat.
  Variable arrange : nat -> list nat -> list nat.
  Variable scheduler : history -> move -> R.    (* the network, all policies, and the adversary *)
  Variable decision : name.

  Notation clicks := None.

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis bound_is_nonneg : (0 <= bound)%Z.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.
  Hypothesis noise_is_large_enough : IZR (bound * grid) <= e * scale.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_the_unit_differs : forall past l n a b,
    0 < scheduler past (Arrive l n a b) -> named decision n = true \/ a = b.
  Hypothesis states_are_opened_once : opened_once grid clicks arrange scheduler.

  (* The transcript of all incarnations together has the guarantee of one handle. *)
  Theorem theorem_C n : private e (transcript scale bound grid dim clicks arrange scheduler true n)
                          (transcript scale bound grid dim clicks arrange scheduler false n).
  Proof. apply theorem_L with (decision := decision); auto. Qed.
End Fleet.
