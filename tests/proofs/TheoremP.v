(* Theorem P (adaptive disjoint batches). One reward of one decision differs, in its value or in its time of arrival.
   The whole transcript is e-DP for all time, with no factor for arms or batches, whoever chooses the moves. *)
Require Import Sums Laplace Machine Worlds Once Unit TheoremL.

Section P.
  Variable scale e : R.
  Variable grid : Z.
  Variable arrange : nat -> list nat -> list nat.
  Variable scheduler : history -> move -> R.
  Variable decision : name.                      (* whose reward differs *)

  (* A release is one number, the sum of a batch. *)
  Notation dim := 1%nat.
  Notation bound := 1%Z.
  Notation clicks := None.
  Notation mine := (named decision).
  Notation transcript := (transcript scale bound grid dim clicks arrange scheduler).

  Hypothesis scale_is_positive : 0 < scale.
  Hypothesis grid_is_nonneg : (0 <= grid)%Z.
  Hypothesis noise_is_large_enough : IZR (bound * grid) <= e * scale.
  Hypothesis scheduler_is_a_distribution : forall past, subprobability (fun _ => True) (scheduler past).
  Hypothesis only_the_unit_differs : forall past l n a b, 0 < scheduler past (Arrive l n a b) -> mine n = true \/ a = b.
  Hypothesis states_are_opened_once : opened_once grid clicks arrange scheduler.

  Theorem theorem_P n : private e (transcript true n) (transcript false n).
  Proof. apply theorem_L with (decision := decision); auto; lia. Qed.

  (* In the words of the contract: D and D' are adjacent, S is any set of outcomes. *)
  Corollary contract n (S : history -> Prop) : exists p p',
    mass (transcript true n) S p /\ mass (transcript false n) S p' /\ 0 <= p <= 1 /\ 0 <= p' <= 1 /\ p <= exp e * p' /\ p' <= exp e * p.
  Proof.
    assert (M : forall left, exists r, mass (transcript left n) S r /\ 0 <= r <= 1)
      by (intros left; apply transcripts_have_masses; assumption).
    destruct (M true) as [p [A B]], (M false) as [p' [C D]]. exists p, p'. pose proof (theorem_P n S p p' A C). tauto.
  Qed.
End P.
