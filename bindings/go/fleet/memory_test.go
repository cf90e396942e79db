package fleet

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// memory is a store in this process, with the contract of [Store]. It counts the bytes that it carries.
type memory struct {
	mu sync.Mutex
	state
	earlier       []state // for a failover
	written, read atomic.Uint64
	resigned      map[uint64]time.Time // when the leader of this generation ended its lease
	slow          int                  // contributions that came to a generation long after that
	slowAfter     time.Duration
}

// state is what a memory keeps, and what a failover can bring back.
type state struct {
	numbers       map[uint16]record
	alive         map[uint16]uint64
	beats, breaks uint64
	puts          uint64
	snapshots     map[uint16]Snapshot
	versions      map[uint16]uint64
	leaders       map[uint64]Leader
	leases        map[uint64]time.Time
	rewards       map[uint16][]Message
	sums          map[uint64][][]byte
	offers        map[uint16]offers
	states        map[uint16][]left
}

// offers are the receivers of an incarnation.
type offers struct {
	incarnation uint32
	open        []uint64
}

// left is a state that was left for a node.
type left struct {
	State
	since time.Time
}

type record struct {
	Member
	until time.Time
}

func newMemory() *memory {
	return &memory{state: state{
		numbers: map[uint16]record{}, alive: map[uint16]uint64{}, snapshots: map[uint16]Snapshot{},
		versions: map[uint16]uint64{}, leaders: map[uint64]Leader{}, leases: map[uint64]time.Time{},
		rewards: map[uint16][]Message{}, sums: map[uint64][][]byte{}, offers: map[uint16]offers{},
		states: map[uint16][]left{},
	}, resigned: map[uint64]time.Time{}}
}

func (s state) clone() state {
	s.numbers, s.alive, s.snapshots = maps.Clone(s.numbers), maps.Clone(s.alive), maps.Clone(s.snapshots)
	s.versions, s.leaders, s.leases = maps.Clone(s.versions), maps.Clone(s.leaders), maps.Clone(s.leases)
	s.rewards, s.sums = maps.Clone(s.rewards), maps.Clone(s.sums)
	s.offers, s.states = maps.Clone(s.offers), maps.Clone(s.states)
	for node, offer := range s.offers {
		s.offers[node] = offers{offer.incarnation, slices.Clone(offer.open)}
	}
	for node, states := range s.states {
		s.states[node] = slices.Clone(states)
	}
	for node, messages := range s.rewards {
		s.rewards[node] = slices.Clone(messages)
	}
	for generation, sums := range s.sums {
		s.sums[generation] = slices.Clone(sums)
	}
	return s
}

// keep remembers the present state, and failOver brings it back.
func (m *memory) keep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.earlier = append(m.earlier, m.state.clone())
}

func (m *memory) failOver(to int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = m.earlier[to].clone()
}

func (m *memory) mine(member Member) bool {
	r, known := m.numbers[member.Node]
	return !known || r.Incarnation < member.Incarnation || r.Incarnation == member.Incarnation && r.Life == member.Life
}

func (m *memory) Take(_ context.Context, node uint16, life uint64, lease time.Duration) (Member, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for number := uint16(1); node == 0; number++ {
		if !m.numbers[number].until.After(now) {
			node = number
		}
	}
	before := max(m.numbers[node].Incarnation, uint32(m.snapshots[node].Version>>32))
	member := Member{node, before + 1, life}
	m.numbers[node] = record{member, now.Add(lease)}
	m.beats++
	m.alive[node] = m.beats
	return member, nil
}

func (m *memory) Put(_ context.Context, member Member, s Snapshot, news bool) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mine(member) || m.snapshots[s.Node].Version >= s.Version {
		return false, nil
	}
	s.Bytes = slices.Clone(s.Bytes)
	m.snapshots[s.Node] = s
	m.written.Add(uint64(len(s.Bytes)))
	if news {
		m.versions[s.Node] = s.Version
		m.puts++
	}
	return true, nil
}

func (m *memory) Versions(context.Context) (map[uint16]uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read.Add(uint64(len(m.versions)) * 26)
	return maps.Clone(m.versions), nil
}

func (m *memory) List(_ context.Context, nodes ...uint16) (found []Snapshot, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, node := range nodes {
		if s, known := m.snapshots[node]; known {
			found = append(found, s)
			m.read.Add(uint64(len(s.Bytes)))
		}
	}
	return found, nil
}

func (m *memory) Numbers(context.Context) ([]uint16, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.numbers)), nil
}

func (m *memory) Beat(_ context.Context, member Member, beat Beat) (p Pulse, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mine(member) {
		return p, ErrReplaced
	}
	m.numbers[member.Node] = record{member, time.Now().Add(beat.Lease)}
	m.beats++
	_, known := m.alive[member.Node]
	m.alive[member.Node] = m.beats
	p.Late = map[uint16]uint64{}
	for node, beats := range m.alive {
		if beats <= beat.Gone {
			p.Gone = append(p.Gone, node)
			delete(m.alive, node)
		} else if beats <= beat.Late {
			p.Late[node] = beats
		}
	}
	if !known || len(p.Gone) > 0 {
		m.breaks++
	}
	for number, record := range m.numbers {
		if beat.Held && record.until.After(time.Now()) {
			p.Held = append(p.Held, number)
		}
	}
	p.States = uint64(len(m.states[member.Node]))
	p.Beats, p.Nodes, p.Numbers, p.Breaks, p.Puts = m.beats, uint64(len(m.alive)), uint64(len(m.numbers)), m.breaks, m.puts
	return p, nil
}

func (m *memory) Leave(_ context.Context, member Member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, known := m.numbers[member.Node]
	if member.Life == 0 && known {
		m.numbers[member.Node] = record{Member: Member{member.Node, r.Incarnation + 1, 0}}
		m.breaks++
	} else if m.mine(member) {
		m.numbers[member.Node] = record{Member: member}
	} else {
		return nil
	}
	delete(m.alive, member.Node)
	return nil
}

func (m *memory) Send(_ context.Context, messages []Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range messages {
		m.rewards[message.To] = append(m.rewards[message.To], message)
	}
	return nil
}

func (m *memory) Receive(_ context.Context, member Member, take func(Message)) error {
	m.mu.Lock()
	if !m.mine(member) {
		m.mu.Unlock()
		return ErrReplaced
	}
	messages := m.rewards[member.Node]
	delete(m.rewards, member.Node)
	m.mu.Unlock()
	for _, message := range messages {
		take(message)
	}
	return nil
}

func (m *memory) Leader(_ context.Context, key uint64) (leader Leader, held bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.leases[key].After(time.Now()) {
		return Leader{Key: key}, false, nil
	}
	return m.leaders[key], true, nil
}

func (m *memory) Lead(_ context.Context, leader Leader, lease time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leases[leader.Key].After(time.Now()) {
		return false, nil
	}
	m.leaders[leader.Key], m.leases[leader.Key] = leader, time.Now().Add(lease)
	return true, nil
}

func (m *memory) Renew(_ context.Context, leader Leader, lease time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leaders[leader.Key] != leader || !m.leases[leader.Key].After(time.Now()) {
		return false, nil
	}
	m.leases[leader.Key] = time.Now().Add(lease)
	if lease == 0 {
		m.resigned[leader.Generation] = time.Now()
	}
	return true, nil
}

func (m *memory) Contribute(_ context.Context, member Member, generation uint64, contribution []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mine(member) {
		return ErrReplaced
	}
	if since, resigned := m.resigned[generation]; resigned && time.Since(since) > m.slowAfter {
		m.slow++
	}
	m.sums[generation] = append(m.sums[generation], contribution)
	m.written.Add(uint64(len(contribution)))
	return nil
}

func (m *memory) Collect(_ context.Context, generation uint64, combine func([]byte)) error {
	m.mu.Lock()
	sums := m.sums[generation]
	delete(m.sums, generation)
	m.mu.Unlock()
	for _, contribution := range sums {
		m.read.Add(uint64(len(contribution)))
		combine(contribution)
	}
	return nil
}

func (m *memory) Offer(_ context.Context, member Member, receivers []uint64, withdraw bool) ([]uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mine(member) {
		return nil, ErrReplaced
	}
	offer := m.offers[member.Node]
	if offer.incarnation != member.Incarnation {
		offer = offers{incarnation: member.Incarnation}
	}
	offer.open = append(offer.open, receivers...)
	m.offers[member.Node] = offer
	if withdraw {
		delete(m.offers, member.Node)
	}
	return slices.Clone(offer.open), nil
}

func (m *memory) Host(_ context.Context, number uint16) (node uint16, receiver uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for candidate, offer := range m.offers { // in random order
		_, alive := m.alive[candidate]
		if !alive || number != 0 && candidate != number || offer.incarnation != m.numbers[candidate].Incarnation {
			continue
		}
		if node = candidate; len(offer.open) > 0 {
			receiver, offer.open = offer.open[0], offer.open[1:]
			m.offers[candidate] = offer
			return node, receiver, nil
		}
	}
	return node, 0, nil
}

func (m *memory) Entrust(
	_ context.Context, member Member, node uint16, receiver uint64, state []byte, lease time.Duration,
) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.mine(member) {
		m.numbers[member.Node] = record{member, now.Add(lease)}
		delete(m.alive, member.Node)
	}
	m.states[node] = append(m.states[node], left{State{Member: member, Receiver: receiver, Bytes: state}, now})
	return nil
}

func (m *memory) Adopt(_ context.Context, member Member, lease time.Duration) (*State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mine(member) || len(m.states[member.Node]) == 0 {
		return nil, nil
	}
	first := m.states[member.Node][0]
	m.states[member.Node] = m.states[member.Node][1:]
	state, number := first.State, first.Member.Node
	state.Age = time.Since(first.since)
	holder, known := m.numbers[number]
	state.Member.Incarnation, state.Member.Life = first.Member.Incarnation+1, first.Receiver
	if known && holder.Incarnation != first.Member.Incarnation || number == member.Node {
		state.Member = Member{Node: number}
	} else {
		m.numbers[number] = record{state.Member, time.Now().Add(lease)}
	}
	return &state, nil
}

func (m *memory) Hold(_ context.Context, member Member, lease time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.mine(member) {
		return ErrReplaced
	}
	m.numbers[member.Node] = record{member, time.Now().Add(lease)}
	return nil
}
