(* Theorem P (adaptive disjoint batches). One reward of one decision differs, in its value or in its time of arrival.
   The whole transcript is e-DP for all time, with no factor for arms or batches, whoever chooses the moves. *)
Require Import Sums Laplace Machine Worlds Once Unit.

Section P.
  Variable scale e : R.
  Variable grid : Z.
  Variable arrange : nat -> list nat -> list nat.
  Variable scheduler : history -> move -> R.
  Variable decision : name.                      (* whose reward differs *)

  (* A release is one number, the sum of a batch: rows are of norm 1. Rewards of a request are not limited. *)
  Notation dim := 1%nat.
  Notation bound := 1%Z.
  Notation clicks := None.
  Notation mine := (named decision).

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.
  Hypothesis noise_is_large_enough : IZR (bound * grid) <= e * scale.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_the_unit_differs : forall past l n a b, 0 < scheduler past (Arrive l n a b) -> mine n = true \/ a = b.
  Hypothesis states_are_opened_once : opened_once grid clicks arrange scheduler.

  Theorem P n : private e (transcript scale bound grid dim clicks arrange scheduler true n)
                          (transcript scale bound grid dim clicks arrange scheduler false n).
  Proof.
    replace e with (INR 1 * e) by (simpl; ring). apply loss_of_unit with (mine := mine); auto; try lia; try discriminate.
    intros h Q. pose proof (one_decision_is_decided_once grid arrange decision h). unfold copied.
    rewrite nothing_is_copied with (scheduler := scheduler); auto. lia.
  Qed.
End P.
