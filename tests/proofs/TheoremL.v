(* Theorem L (instruments). A reward is multiplied by a row of integers of L1 norm at most `bound`, chosen from the past
   when it takes effect, and a batch is a vector of sums. *)
Require Import Sums Laplace Machine Worlds Once Unit.

Section L.
  Variable scale e : R.
  Variables bound grid : Z.
  Variable dim : nat.
  Variable arrange : nat -> list nat -> list nat.
  Variable scheduler : history -> move -> R.    (* features, instruments and sizes of batches too *)
  Variable decision : name.

  Notation clicks := None.
  Notation mine := (named decision).

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis bound_is_nonneg : (0 <= bound)%Z.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.
  Hypothesis noise_is_large_enough : IZR (bound * grid) <= e * scale.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_the_unit_differs : forall past l n a b, 0 < scheduler past (Arrive l n a b) -> mine n = true \/ a = b.
  Hypothesis states_are_opened_once : opened_once grid clicks arrange scheduler.

  Theorem theorem_L n : private e (transcript scale bound grid dim clicks arrange scheduler true n)
                          (transcript scale bound grid dim clicks arrange scheduler false n).
  Proof.
    replace e with (INR 1 * e) by (simpl; ring). apply loss_of_unit with (mine := mine); auto; try discriminate.
    intros h Q. pose proof (one_decision_is_decided_once grid None arrange decision h). unfold copied.
    rewrite nothing_is_copied with (scheduler := scheduler); auto. lia.
  Qed.
End L.
