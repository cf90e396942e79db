-- The commands of command.rs for Redis and Valkey. Each command is its section, after the first section. store/ has the
-- same functions: change both. Times are milliseconds of the server's clock.
--
-- KEYS[1] is the hash of records: for each number "INCARNATION LIFE END SENT DRAINING", END being that of the lease, SENT
-- the sequence of the last reward that this life has sent, and DRAINING 1 if another node keeps what is open. ARGV[1] to
-- ARGV[3] are the member: number, incarnation, life.

local said = {}
local function say(...)
  for _, value in ipairs({...}) do
    if type(value) == 'number' then value = string.format('%.0f', value) end
    table.insert(said, #value .. ':' .. value)
  end
end

local function reply(...)
  say(...)
  return table.concat(said)
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function words(...)
  local texts = {}
  for i, value in ipairs({...}) do texts[i] = type(value) == 'number' and string.format('%.0f', value) or value end
  return table.concat(texts, ' ')
end

local function sorted(rows)
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return rows
end

local function record(number, text)
  local incarnation, life, till, sent, draining =
    (text or redis.call('HGET', KEYS[1], number) or ''):match('^(%d+) (%d+) (%d+) (%d+) (%d+)$')
  return tonumber(incarnation), life, tonumber(till), tonumber(sent), tonumber(draining)
end

local function hold(number, incarnation, life, till, sent, draining)
  redis.call('HSET', KEYS[1], number, words(incarnation, life, till, sent, draining))
end

-- Whether the member holds its number: the record has its life, or an older incarnation, which is what a replica that
-- lags brings back.
local function mine()
  local incarnation, life = record(ARGV[1])
  local own = tonumber(ARGV[2])
  return not incarnation or incarnation < own or incarnation == own and life == ARGV[3]
end

-- Renews the lease of the member, and returns the sequence of its last reward.
local function renew(lease, draining)
  local _, life, _, sent = record(ARGV[1])
  if life ~= ARGV[3] then sent = 0 end
  hold(ARGV[1], ARGV[2], ARGV[3], now() + lease, sent, draining)
  return sent
end

local function count(counts, name)
  return tonumber(redis.call('HGET', counts, name) or 0)
end

-- A node is gone or has come back, or the store has gone back: what was sent after this beat may be lost; 0: anything.
local function interrupt(counts, beat)
  redis.call('HINCRBY', counts, 'breaks', 1)
  redis.call('HSET', counts, 'broken', words(beat))
end

-- A queue is a hash: `q` has "FIRST NEXT END", the numbers of its first and its next message, and when all are too old.
local function queue(key)
  local first, next, till = (redis.call('HGET', key, 'q') or ''):match('^(%d+) (%d+) (%d+)$')
  if first and tonumber(till) > now() then return tonumber(first), tonumber(next), tonumber(till) end
  if first then redis.call('DEL', key) end
  return 1, 1, 0
end

-- Adds a message; beyond `most` messages the oldest is lost.
local function push(key, message, most, lifetime)
  local first, next = queue(key)
  if next - first >= most then
    redis.call('HDEL', key, words(first))
    first = first + 1
  end
  redis.call('HSET', key, words(next), message, 'q', words(first, next + 1, now() + lifetime))
  redis.call('PEXPIRE', key, lifetime)
end

-- Deletes the messages up to this one, if it still is the one that the reader saw: it begins with this mark.
local function acknowledge(key, last, mark)
  local first, next, till = queue(key)
  local message = last ~= '0' and redis.call('HGET', key, last)
  if not message or message:sub(1, #mark) ~= mark then return end
  if tonumber(last) + 1 >= next then
    redis.call('DEL', key)
    return
  end
  for i = first, tonumber(last) do redis.call('HDEL', key, words(i)) end
  redis.call('HSET', key, 'q', words(tonumber(last) + 1, next, till))
end

-- Deletes messages up to the position in the arguments from `at` on, and says those of the portion after it, each with its
-- number: at most so many, and no further one beyond so many bytes.
local function deliver(key, at)
  acknowledge(key, ARGV[at], ARGV[at + 1])
  local most, bytes = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
  local first, next = queue(key)
  local found, size = {}, 0
  for i = first, math.min(next - 1, first + most - 1) do
    local message = redis.call('HGET', key, words(i)) or ''
    size = size + #message
    if size > bytes and #found > 0 then break end
    table.insert(found, {i, message})
  end
  say(#found)
  for _, row in ipairs(found) do say(row[1], row[2]) end
end

-- Does some work on a queue. A key that is no queue is foreign, and deleted. Other errors, such as OOM, end the work.
local function tried(key, work)
  local done, why = pcall(work)
  if not done and tostring(type(why) == 'table' and why.err or why):find('WRONGTYPE') then
    redis.call('DEL', key)
    done = pcall(work)
  end
  return done
end

---- TAKE
local alive, counts, versions, snapshots = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local asked, life, lease, seen, time = ARGV[1], ARGV[3], tonumber(ARGV[4]), ARGV[5], now()
local number = asked
if asked == '0' then
  local own, held, all = nil, {}, redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local other, _, holder, till = all[i], record(all[i], all[i + 1])
    if holder == life and tonumber(other) < tonumber(own or other + 1) then own = other end
    held[other] = till and till > time
  end
  number = 1
  while held[tostring(number)] do number = number + 1 end
  number = own or tostring(number)
  if tonumber(number) > 65535 then return reply('full') end
end
local incarnation, holder, till, sent, draining = record(number)
local version = redis.call('HGET', versions, number) or ('0'):rep(20)
if holder == life then
  hold(number, incarnation, life, time + lease, sent, 0)
elseif till and till > time and draining == 0 then
  return reply('taken', till - time)
elseif asked ~= '0' and seen ~= version then
  incarnation = 0
else
  incarnation = math.max(incarnation or 0, tonumber(version:sub(1, 10))) + 1
  hold(number, incarnation, life, time + lease, 0, 0)
  local beat = redis.call('ZSCORE', alive, number)
  if beat then interrupt(counts, tonumber(beat)) end
  redis.call('ZADD', alive, redis.call('HINCRBY', counts, 'beats', 1), number)
end
return reply('ok', number, incarnation, version, redis.call('HGET', snapshots, number) or '')

---- ROUND
local alive, counts, versions, rewards, states = KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local last, late, gone = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
if not mine() then return reply('replaced') end
local due = tonumber(ARGV[16])
if due > 0 and now() > due then return reply('late', now()) end
local sent = renew(tonumber(ARGV[4]), 0)
local beats = redis.call('HINCRBY', counts, 'beats', 1)
local before = tonumber(redis.call('ZSCORE', alive, ARGV[1]) or 0)
if before < last then late, gone = 0, 0 end
redis.call('ZADD', alive, beats, ARGV[1])
local function until_beat(beat)
  local all, found = redis.call('ZRANGEBYSCORE', alive, '-inf', beat, 'WITHSCORES'), {}
  for i = 1, #all, 2 do
    if all[i] ~= ARGV[1] then table.insert(found, {tonumber(all[i]), tonumber(all[i + 1])}) end
  end
  return sorted(found)
end
local removed, broken = until_beat(gone), (before == 0 or before < last) and before or nil
for _, row in ipairs(removed) do
  redis.call('ZREM', alive, words(row[1]))
  broken = math.min(broken or row[2], row[2])
end
if broken then interrupt(counts, broken) end
local numbers = {}
local known = redis.call('HLEN', KEYS[1])
if ARGV[9] == '1' or known ~= tonumber(ARGV[8]) then
  local time, all = now(), redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local _, _, till = record(all[i], all[i + 1])
    if till and (ARGV[9] ~= '1' or till > time) then table.insert(numbers, {tonumber(all[i])}) end
  end
end
-- What is wrong with rewards stops no beat.
for i = 18, #ARGV, 2 do
  local sequence, to = tonumber(ARGV[17]) + (i - 18) / 2, KEYS[tonumber(ARGV[i])]
  if sequence > sent then
    local message = words(ARGV[3], sequence, ARGV[i + 1])
    if not tried(to, function() push(to, message, tonumber(ARGV[14]), tonumber(ARGV[15])) end) then break end
    sent = sequence
  end
end
local _, _, till = record(ARGV[1])
hold(ARGV[1], ARGV[2], ARGV[3], till, sent, 0)
local function waiting(key)
  local first, next = queue(key)
  return next - first
end
say('ok', now(), before, beats, redis.call('ZCARD', alive), count(counts, 'breaks'), count(counts, 'broken'), count(counts, 'news'))
say(waiting(states), redis.call('HGET', versions, ARGV[1]) or ('0'):rep(20), sent, known, #removed)
for _, row in ipairs(removed) do say(row[1], row[2]) end
local behind = until_beat(late)
say(#behind)
for _, row in ipairs(behind) do say(row[1], row[2]) end
say(#numbers)
for _, row in ipairs(sorted(numbers)) do say(row[1]) end
if not tried(rewards, function() deliver(rewards, 10) end) then say(0) end
return reply()

---- PUT
local snapshots, versions, news, counts = KEYS[2], KEYS[3], KEYS[4], KEYS[5]
if not mine() then return reply('replaced') end
local version = redis.call('HGET', versions, ARGV[1]) or ('0'):rep(20)
if version < ARGV[4] then
  version = ARGV[4]
  redis.call('HSET', snapshots, ARGV[1], ARGV[6])
  redis.call('HSET', versions, ARGV[1], version)
  if ARGV[5] == '1' then
    redis.call('HSET', news, ARGV[1], version)
    redis.call('HINCRBY', counts, 'news', 1)
  end
end
return reply('ok', version)

---- NEWS
local news, snapshots = KEYS[2], KEYS[3]
local most, bytes, known, changed = tonumber(ARGV[4]), tonumber(ARGV[5]), {}, {}
if not mine() then return reply('replaced') end
for i = 6, #ARGV, 2 do known[ARGV[i]] = ARGV[i + 1] end
local all = redis.call('HGETALL', news)
for i = 1, #all, 2 do
  if all[i] ~= ARGV[1] and known[all[i]] ~= all[i + 1] then
    table.insert(changed, {tonumber(all[i]), all[i + 1]})
  end
end
local found, size = {}, 0
for _, row in ipairs(sorted(changed)) do
  local snapshot = redis.call('HGET', snapshots, words(row[1])) or ''
  size = size + #snapshot
  if #found >= most or size > bytes and #found > 0 then break end
  table.insert(found, {row[1], row[2], snapshot})
end
say('ok', #found < #changed and '1' or '0', #found)
for _, row in ipairs(found) do say(row[1], row[2], row[3]) end
return reply()

---- LEAD
local leaders, fleet, generation, seen, lease = KEYS[2], ARGV[4], ARGV[5], ARGV[6], tonumber(ARGV[7])
if not mine() then return reply('replaced') end
local node, led, term, till = (redis.call('HGET', leaders, fleet) or ''):match('^(%d+) (%d+) (%d+) (%d+)$')
node, led, term, till = node or '0', led or '0', term or '0', tonumber(till or 0)
local time, leads = now(), node == ARGV[1] and led == generation
if leads and till > 0 and lease == 0 then
  term, till = words(term + 1), 0
elseif leads and till > 0 then
  till = time + lease
elseif till <= time and generation ~= '0' and seen == term and lease > 0 then
  node, led, term, till = ARGV[1], generation, words(term + 1), time + lease
end
redis.call('HSET', leaders, fleet, words(node, led, term, till))
if till <= time then node, led = '0', '0' end
return reply('ok', node, led, term)

---- CONTRIBUTE
if not mine() then return reply('replaced') end
push(KEYS[2], words(ARGV[3], ARGV[4], ARGV[7]), tonumber(ARGV[5]), tonumber(ARGV[6]))
return reply('ok')

---- COLLECT
if not mine() then return reply('replaced') end
say('ok')
deliver(KEYS[2], 4)
return reply()

---- KEEP
if not mine() then return reply('replaced') end
renew(tonumber(ARGV[4]), 1)
say('ok')
deliver(KEYS[2], 5)
return reply()

---- OFFER
local offers = KEYS[2]
if not mine() then return reply('replaced') end
local incarnation, sequence, open = (redis.call('HGET', offers, ARGV[1]) or ''):match('^(%d+) (%d+)(.*)$')
if incarnation ~= ARGV[2] then sequence, open = 0, '' end
if tonumber(ARGV[4]) > tonumber(sequence) then
  for i = 6, #ARGV do open = open .. ' ' .. ARGV[i] end
  redis.call('HSET', offers, ARGV[1], words(ARGV[2], ARGV[4]) .. (ARGV[5] == '1' and '' or open))
end
return reply('ok', open)

---- HOST
local alive, offers, asked, draw = KEYS[2], KEYS[3], ARGV[4], tonumber(ARGV[5])
local nodes = {}
for _, number in ipairs(asked ~= '0' and {asked} or redis.call('ZRANGE', alive, 0, -1)) do
  table.insert(nodes, {tonumber(number)})
end
sorted(nodes)
for i = 1, #nodes do
  local node = words(nodes[(draw + i) % #nodes + 1][1])
  local incarnation, sequence, open = (redis.call('HGET', offers, node) or ''):match('^(%d+) (%d+)(.*)$')
  if incarnation and tonumber(incarnation) == record(node) and redis.call('ZSCORE', alive, node) and node ~= ARGV[1] then
    local receiver, others = open:match('^ (%d+)(.*)$')
    if receiver then
      redis.call('HSET', offers, node, words(incarnation, sequence) .. others)
      return reply('ok', node, receiver)
    end
  end
end
return reply('ok', '0', '0')

---- ENTRUST
local alive, states, lease, receiver = KEYS[2], KEYS[3], tonumber(ARGV[4]), ARGV[5]
if mine() then
  hold(ARGV[1], ARGV[2], 0, now() + lease, 0, 1)
  redis.call('ZREM', alive, ARGV[1])
end
local mark = receiver .. ' ' .. ARGV[1] .. ' '
local first, next = queue(states)
for i = first, next - 1 do
  if (redis.call('HGET', states, words(i)) or ''):sub(1, #mark) == mark then return reply('ok') end
end
push(states, mark .. words(ARGV[2], now(), ARGV[6]), next - first + 1, lease)
return reply('ok')

---- ADOPT
local states, lease = KEYS[2], tonumber(ARGV[4])
if not mine() then return reply('replaced') end
acknowledge(states, ARGV[5], ARGV[6])
local first, next = queue(states)
if first == next then return reply('ok', 0) end
local receiver, number, incarnation, since, state =
  (redis.call('HGET', states, words(first)) or ''):match('^(%d+) (%d+) (%d+) (%d+) (.*)$')
if not receiver then return reply('ok', 1, first, '0', '0', '0', '0', '0', '') end
local before, life, _, sent = record(number)
local given, held = tonumber(incarnation) + 1, 1
if number == ARGV[1] then
  held = 0
elseif before == given and life == receiver then
  hold(number, given, receiver, now() + lease, sent, 1)
elseif not before or before == given - 1 then
  hold(number, given, receiver, now() + lease, 0, 1)
else
  held = 0
end
return reply('ok', 1, first, receiver, number, incarnation, held, math.max(now() - since, 0), state)

---- LEAVE
local alive, counts = KEYS[2], KEYS[3]
local incarnation, life, _, sent = record(ARGV[1])
if ARGV[3] ~= '0' then
  if incarnation and mine() then
    hold(ARGV[1], ARGV[2], 0, 0, 0, 0)
    redis.call('ZREM', alive, ARGV[1])
  end
elseif incarnation and life ~= '0' then
  hold(ARGV[1], incarnation + 1, 0, 0, 0, 0)
  local beat = redis.call('ZSCORE', alive, ARGV[1])
  redis.call('ZREM', alive, ARGV[1])
  interrupt(counts, tonumber(beat or 0))
end
return reply('ok')
