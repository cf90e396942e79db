(* The sampler: floor(scale * Exp(1)) with a random sign, without minus zero, is discrete Laplace; and the fast path
   decides the floor only if it is certain. sampler.py proves the bounds of the integers that this takes as hypotheses. *)
Require Import Sums Laplace.

Section Distribution.
  Variable scale : R.
  Hypothesis scale_is_positive : 0 < scale.

  (* P(n <= scale E < n + 1), where P(E >= x) = e^-x. *)
  Definition geometric (n : nat) := exp (- (INR n / scale)) - exp (- (INR (S n) / scale)).

  Lemma geometric_is n : geometric n = (1 - q scale) * exp (- (INR n / scale)).
  Proof.
    unfold geometric, q. rewrite S_INR. replace (- ((INR n + 1) / scale)) with (- (INR n / scale) + - / scale) by (unfold Rdiv; ring).
    rewrite exp_plus. ring.
  Qed.

  (* The sign is a fair coin; minus zero is drawn again, so all masses are divided by 1 - P(minus zero). *)
  Definition signed (x : Z) := (if (x =? 0)%Z then geometric 0 / 2 else geometric (Z.abs_nat x) / 2) / (1 - geometric 0 / 2).

  Theorem signed_is_laplace x : signed x = laplace scale x.
  Proof.
    pose proof (q_range scale scale_is_positive). unfold signed, laplace.
    assert (G : geometric 0 = 1 - q scale).
    { rewrite geometric_is. simpl. replace (- (0 / scale)) with 0 by (unfold Rdiv; ring). rewrite exp_0. ring. }
    assert (E : (if (x =? 0)%Z then geometric 0 / 2 else geometric (Z.abs_nat x) / 2) = (1 - q scale) / 2 * exp (- (IZR (Z.abs x) / scale))).
    { destruct (x =? 0)%Z eqn:X.
      - apply Z.eqb_eq in X. subst x. rewrite G. simpl. replace (- (0 / scale)) with 0 by (unfold Rdiv; ring). rewrite exp_0. field.
      - rewrite geometric_is, INR_IZR_INZ, Zabs2Nat.id_abs. field. }
    rewrite E, G. field. lra.
  Qed.
End Distribution.

(* In units of 2^-64: `fast` is within `error` of E, and `window` is twice that. *)
Section Floor.
  Variables fast scale error : Z.
  Variable E : R.

  Notation word := 18446744073709551616%Z.       (* 2^64 *)
  Notation product := ((fast - error) * scale)%Z.

  Hypothesis scale_is_positive : (0 < scale)%Z.
  Hypothesis fast_is_near : Rabs (IZR fast - E * IZR word) < IZR error.
  Hypothesis no_carry : (product mod word + 2 * error * scale < word)%Z.

  Theorem floor_is_decided : IZR (product / word) <= IZR scale * E < IZR (product / word) + 1.
  Proof.
    set (k := (product / word)%Z). set (r := (product mod word)%Z) in *.
    assert (W : (0 < word)%Z) by lia.
    assert (D : (product = word * k + r)%Z) by (apply Z.div_mod; lia).
    assert (Rr : (0 <= r < word)%Z) by (apply Z.mod_pos_bound; exact W).
    apply Rabs_def2 in fast_is_near as [U L].
    assert (S0 : 0 < IZR scale) by (apply IZR_lt; exact scale_is_positive).
    assert (W0 : 0 < IZR word) by (apply IZR_lt; exact W).
    apply (f_equal IZR) in D. rewrite mult_IZR, minus_IZR, plus_IZR, mult_IZR in D.
    assert (R0 : 0 <= IZR r) by (apply IZR_le; lia).
    apply IZR_lt in no_carry. rewrite plus_IZR, !mult_IZR in no_carry.
    split.
    - apply Rmult_le_reg_l with (IZR word); [exact W0|]. nra.
    - apply Rmult_lt_reg_l with (IZR word); [exact W0|]. nra.
  Qed.

  (* A result below zero wraps around 2^128, and is not decided. *)
  Theorem below_zero_is_undecided : (-2 * error <= fast - error < 0)%Z -> (2 * error * scale < word)%Z ->
    (product mod word + 2 * error * scale >= word)%Z.
  Proof.
    intros [A B] C. rewrite <- (Z_mod_plus_full product 1 word).
    rewrite Z.mod_small; nia.
  Qed.
End Floor.
