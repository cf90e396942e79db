(* The transition system: which rewards are where, and what is released. One machine is a whole fleet: incarnations of
   handles (from creation, restoration or resumption to the end) that decide, release, contribute, lead, crash and move.
   A handle alone is the machine in which one incarnation moves.

   Whoever chooses the moves (policy, adversary, network, clock, coins) sees the history: all moves and all released
   numbers, and nothing else. *)
Require Import Sums.

(* A decision: the user, the request and the slot. Slot 0 is no decision, see Fix. *)
Record name := Name { user : nat; request : nat; slot : nat }.

Definition name_dec (n m : name) : {n = m} + {n <> m}.
Proof. repeat decide equality. Defined.

(* What a sum counts of a reward: any function of the grid, as the table of its values; None: the reward itself. *)
Definition function := option (list Z).

(* Open; limited with its request (max_clicks); in the open sum of a batch, where a function of it counts, multiplied by a
   row of integers. *)
Inductive stage := Waiting | Fixed | Placed (batch : nat) (row : list Z) (f : function).

(* The rewards that an incarnation holds. V is what is known of a reward: its value in a world, or its values in two. *)
Record item (V : Type) := Item { incarnation : nat; decision : name; at_stage : stage; value : V }.
Arguments Item {V}. Arguments incarnation {V}. Arguments decision {V}. Arguments at_stage {V}. Arguments value {V}.

(* A sealed contribution. `taken` says whether it was ever accepted: no rule reads it. *)
Record message (V : Type) := Message
  { generation : nat; sender : nat; sequence : nat; content : list (item V); taken : bool }.
Arguments Message {V}. Arguments generation {V}. Arguments sender {V}. Arguments sequence {V}.
Arguments content {V}. Arguments taken {V}.

(* `stored` are suspended states. `opened` says whether one was ever resumed: no rule reads it. *)
Record suspended (V : Type) := Suspended { held : list (item V); opened : bool }.
Arguments Suspended {V}. Arguments held {V}. Arguments opened {V}.

Record state (V : Type) := State
  { items : list (item V); net : list (message V); stored : list (suspended V);
    leads : nat -> option nat;   (* the generation that an incarnation leads *)
    last : nat -> nat -> nat;    (* the largest sequence number that an incarnation accepted from a sender *)
    requests : nat; generations : nat }.
Arguments State {V}. Arguments items {V}. Arguments net {V}. Arguments stored {V}. Arguments leads {V}.
Arguments last {V}. Arguments requests {V}. Arguments generations {V}.

Inductive move :=
| Public (n : nat)                          (* a coin, the clock, a snapshot, a decision that is not learned from *)
| Decide (l u slots : nat)                  (* a request of user u, with a number that no other has *)
| Arrive (l : nat) (n : name) (left right : option Z)  (* a report, and what is then held in two worlds *)
| Cancel (l : nat) (n : name)               (* dpb_cancel, or the decision expires *)
| Fix (l u r coin : nat)                    (* max_clicks limits the rewards of a request *)
| Due (l : nat) (n : name) (b : nat) (row : list Z) (f : function) (* the reward takes effect in batch b, by its time alone *)
| Release (l b : nat)
| Drop (l b : nat)
| Contribute (l g from seq : nat)           (* all open sums of l, in a message *)
| Deliver (l j : nat)                       (* message j, for the first time or again *)
| Lead (l : nat) | Alone (l : nat)
| End (l : nat)                             (* a crash. A restored incarnation is a new one, with nothing open *)
| Suspend (l : nat) | Resume (l j : nat).   (* state j begins the incarnation l *)

Definition move_dec (m n : move) : {m = n} + {m <> n}.
Proof. repeat decide equality. Defined.

(* What the two moves that touch values do to them. *)
Record values (V : Type) := Values
  { blank : V; arrive : option Z -> option Z -> V -> V; limit : nat -> list V -> list V }.
Arguments Values {V}. Arguments blank {V}. Arguments arrive {V}. Arguments limit {V}.

Definition named (n m : name) := if name_dec n m then true else false.
Definition waiting (s : stage) := match s with Waiting => true | _ => false end.
Definition placed (s : stage) := match s with Placed _ _ _ => true | _ => false end.

Section Step.
  Variable limited : bool. (* whether max_clicks is set *)
  Context {V : Type}.
  Variable ops : values V.

  Definition of_incarnation l (i : item V) := incarnation i =? l.
  Definition waits l n (i : item V) := (incarnation i =? l) && named (decision i) n && waiting (at_stage i).
  Definition in_batch l b (i : item V) :=
    match at_stage i with Placed c _ _ => (incarnation i =? l) && (c =? b) | _ => false end.
  Definition in_request l u r (i : item V) :=
    (incarnation i =? l) && (user (decision i) =? u) && (request (decision i) =? r) && waiting (at_stage i).
  Definition token l u r (i : item V) := in_request l u r i && (slot (decision i) =? 0).
  Definition due l n (i : item V) :=
    (incarnation i =? l) && named (decision i) n &&
    match at_stage i with Waiting => negb limited | Fixed => true | Placed _ _ _ => false end.

  Definition received a b (i : item V) := Item (incarnation i) (decision i) (at_stage i) (arrive ops a b (value i)).
  Definition entered b row f (i : item V) := Item (incarnation i) (decision i) (Placed b row f) (value i).
  Definition moved_to l (i : item V) := Item l (decision i) (at_stage i) (value i).

  (* Writes the limited values back. *)
  Fixpoint refill (f : item V -> bool) (vs : list V) (l : list (item V)) : list (item V) :=
    match l with
    | [] => []
    | i :: l =>
      if f i then
        match vs with
        | v :: vs => Item (incarnation i) (decision i) Fixed v :: refill f vs l
        | [] => i :: refill f [] l
        end
      else i :: refill f vs l
    end.

  Definition fresh l u r k : list (item V) :=
    (if limited then [Item l (Name u r 0) Waiting (blank ops)] else []) ++
    map (fun j => Item l (Name u r j) Waiting (blank ops)) (seq 1 k).

  Definition with_items (s : state V) l := State l (net s) (stored s) (leads s) (last s) (requests s) (generations s).
  Definition without (f : item V -> bool) l := filter (fun i => negb (f i)) l.
  Definition set_leads (s : state V) l x :=
    State (items s) (net s) (stored s) (fun k => if k =? l then x else leads s k) (last s) (requests s) (generations s).

  Fixpoint replace {A} (j : nat) (x : A) (l : list A) : list A :=
    match l, j with [], _ => [] | _ :: l, O => x :: l | y :: l, S j => y :: replace j x l end.

  Definition accepts (s : state V) l (m : message V) :=
    match leads s l with Some g => (g =? generation m) && (last s l (sender m) <? sequence m) | None => false end.

  Definition step (s : state V) (m : move) : state V :=
    match m with
    | Public _ => s
    | Decide l u k =>
      State (items s ++ fresh l u (requests s) k) (net s) (stored s) (leads s) (last s) (S (requests s)) (generations s)
    | Arrive l n a b => with_items s (map (fun i => if waits l n i then received a b i else i) (items s))
    | Cancel l n =>
      with_items s (without (fun i => (incarnation i =? l) && named (decision i) n && negb (placed (at_stage i))) (items s))
    | Fix l u r coin =>
      if limited && existsb (token l u r) (items s) then
        let rest := without (token l u r) (items s) in
        with_items s (refill (in_request l u r) (limit ops coin (map value (filter (in_request l u r) rest))) rest)
      else s
    | Due l n b row f => with_items s (map (fun i => if due l n i then entered b row f i else i) (items s))
    | Release l b => with_items s (without (in_batch l b) (items s))
    | Drop l b => with_items s (without (in_batch l b) (items s))
    | Contribute l g from seq =>
      let open i := of_incarnation l i && placed (at_stage i) in
      State (without open (items s)) (net s ++ [Message g from seq (filter open (items s)) false])
        (stored s) (leads s) (last s) (requests s) (generations s)
    | Deliver l j =>
      match nth_error (net s) j with
      | Some m =>
        if accepts s l m then
          State (items s ++ map (moved_to l) (content m))
            (replace j (Message (generation m) (sender m) (sequence m) (content m) true) (net s)) (stored s) (leads s)
            (fun k f => if (k =? l) && (f =? sender m) then sequence m else last s k f) (requests s) (generations s)
        else s
      | None => s
      end
    | Lead l =>
      State (items s) (net s) (stored s) (fun k => if k =? l then Some (generations s) else leads s k)
        (fun k f => if k =? l then O else last s k f) (requests s) (S (generations s))
    | Alone l => set_leads s l None
    | End l => set_leads (with_items s (without (of_incarnation l) (items s))) l None
    | Suspend l =>
      set_leads (State (without (of_incarnation l) (items s)) (net s) (stored s ++ [Suspended (filter (of_incarnation l) (items s)) false])
        (leads s) (last s) (requests s) (generations s)) l None
    | Resume l j =>
      match nth_error (stored s) j with
      | Some t =>
        State (items s ++ map (moved_to l) (held t)) (net s) (replace j (Suspended (held t) true) (stored s))
          (leads s) (last s) (requests s) (generations s)
      | None => s
      end
    end.

  (* What a move releases, with noise. *)
  Definition released (s : state V) (m : move) : option (list (item V)) :=
    match m with Release l b => Some (filter (in_batch l b) (items s)) | _ => None end.

  Definition start : state V := State [] [] [] (fun _ => None) (fun _ _ => O) O O.
End Step.

(* A move, and the released numbers if it is a release. A history has the newest event first. *)
Definition event : Type := move * list Z.
Definition history := list event.

Fixpoint run (limited : bool) {V} (ops : values V) (h : history) : state V :=
  match h with [] => start | e :: past => step limited ops (run limited ops past) (fst e) end.

(* Nothing but the values themselves depends on the values. *)
Section Natural.
  Variable limited : bool.
  Context {V W : Type}.
  Variables (f : V -> W) (ops : values V) (ops' : values W).

  Definition map_item (i : item V) : item W := Item (incarnation i) (decision i) (at_stage i) (f (value i)).
  Definition map_message (m : message V) : message W :=
    Message (generation m) (sender m) (sequence m) (map map_item (content m)) (taken m).
  Definition map_suspended (t : suspended V) : suspended W := Suspended (map map_item (held t)) (opened t).
  Definition map_state (s : state V) : state W :=
    State (map map_item (items s)) (map map_message (net s)) (map map_suspended (stored s))
      (leads s) (last s) (requests s) (generations s).

  Definition natural :=
    f (blank ops) = blank ops' /\
    (forall a b v, f (arrive ops a b v) = arrive ops' a b (f v)) /\
    (forall c l, map f (limit ops c l) = limit ops' c (map f l)).

  Context (commutes : natural).

  Lemma filter_map {A B} (g : A -> B) p l : filter p (map g l) = map g (filter (fun x => p (g x)) l).
  Proof. induction l; simpl; [reflexivity|]. destruct (p (g a)); simpl; rewrite IHl; reflexivity. Qed.

  Lemma existsb_map {A B} (g : A -> B) p l : existsb p (map g l) = existsb (fun x => p (g x)) l.
  Proof. induction l; simpl; [reflexivity|]. rewrite IHl. reflexivity. Qed.

  Lemma replace_map {A B} (g : A -> B) x l : forall j, replace j (g x) (map g l) = map g (replace j x l).
  Proof. induction l; intros [|j]; simpl; [reflexivity..|]. rewrite IHl. reflexivity. Qed.

  Lemma nth_error_map' {A B} (g : A -> B) l : forall j, nth_error (map g l) j = option_map g (nth_error l j).
  Proof. induction l; intros [|j]; simpl; auto. Qed.

  Lemma refill_map p l : forall vs, refill (fun i => p (incarnation i, decision i, at_stage i)) (map f vs) (map map_item l) =
    map map_item (refill (fun i => p (incarnation i, decision i, at_stage i)) vs l).
  Proof.
    induction l as [|i l IH]; intros vs; simpl; [reflexivity|].
    destruct (p _); destruct vs; simpl; rewrite <- IH; reflexivity.
  Qed.

  Lemma step_natural s m : step limited ops' (map_state s) m = map_state (step limited ops s m).
  Proof.
    destruct commutes as [Cb [Ca Cl]].
    destruct m; unfold step, map_state, with_items, set_leads, without, fresh; simpl; try reflexivity.
    - rewrite map_app. f_equal. f_equal. rewrite <- Cb. destruct limited; simpl; [f_equal|]; rewrite map_map; reflexivity.
    - f_equal. rewrite !map_map. apply map_ext. intros i. unfold waits. simpl.
      destruct (_ && _); [|reflexivity]. unfold received, map_item. simpl. rewrite Ca. reflexivity.
    - f_equal. rewrite filter_map. reflexivity.
    - rewrite existsb_map. change (fun x => token l u r (map_item x)) with (@token V l u r).
      destruct (limited && _); [|reflexivity]. simpl. f_equal. rewrite filter_map.
      change (fun x => negb (token l u r (map_item x))) with (fun x : item V => negb (token l u r x)).
      rewrite filter_map, map_map. simpl.
      change (fun x => in_request l u r (map_item x)) with (@in_request V l u r).
      rewrite <- (map_map value f), <- Cl.
      apply (refill_map (fun t => let '(a, d, s) := t in (a =? l) && (user d =? u) && (request d =? r) && waiting s)).
    - f_equal. rewrite !map_map. apply map_ext. intros i. unfold due. simpl. destruct (_ && _); reflexivity.
    - f_equal. rewrite filter_map. reflexivity.
    - f_equal. rewrite filter_map. reflexivity.
    - f_equal; [rewrite filter_map; reflexivity|]. rewrite map_app. simpl. unfold map_message at 2. simpl. rewrite filter_map. reflexivity.
    - rewrite nth_error_map'. destruct (nth_error (net s) j) as [t|]; [|reflexivity]. simpl.
      unfold accepts. simpl. destruct (leads s l); [|reflexivity]. destruct (_ && _); [|reflexivity].
      simpl. f_equal.
      + rewrite map_app, !map_map. reflexivity.
      + apply (replace_map map_message (Message (generation t) (sender t) (sequence t) (content t) true)).
    - f_equal. rewrite filter_map. reflexivity.
    - f_equal; [rewrite filter_map; reflexivity|]. rewrite map_app. simpl. unfold map_suspended at 2. simpl. rewrite filter_map. reflexivity.
    - rewrite nth_error_map'. destruct (nth_error (stored s) j) as [t|]; [|reflexivity]. simpl. f_equal.
      + rewrite map_app, !map_map. reflexivity.
      + apply (replace_map map_suspended (Suspended (held t) true)).
  Qed.

  Lemma run_natural h : run limited ops' h = map_state (run limited ops h).
  Proof. induction h; simpl; [reflexivity|]. rewrite IHh. apply step_natural. Qed.
End Natural.
