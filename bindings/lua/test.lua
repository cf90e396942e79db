-- luajit test.lua LIBRARY, in this directory.
local dpb = require "dpb"
dpb.load(arg[1])

local bandit = assert(dpb.new { arms = 5, epsilon = 1, test_seed = ("s"):rep(32) })
assert(bandit:policy() == "dp-imed")
math.randomseed(1)
for _ = 1, 100000 do
  local arm, ticket, propensity = bandit:select()
  assert(propensity > 0 and propensity <= 1)
  assert(bandit:update(ticket, math.random() < (arm == 3 and 0.5 or 0.1) and 1 or 0))
end
local report, arms = bandit:report(), bandit:arms()
assert(report.decisions == 100000 and report.epsilon_spent == 1 and report.is_private == 0)
assert(#arms == 5 and arms[4].pulls > 90000 and math.abs(arms[4].mean - 0.5) < 0.05 and arms[4].active)

assert(bandit:statement():find '"is_private":false' and bandit:statement(true):find "NOT PRIVATE")

-- Failures: nil, a message that names the field, the status.
local none, message, status = dpb.new { arms = 1, epsilon = 1 }
assert(none == nil and message == "arms must be in 2 .. 2^24, got 1" and status == dpb.C.DPB_INVALID_CONFIG)
none, message, status = dpb.new({ arms = 2, epsilon = 1 }, "no-policy")
assert(none == nil and status == dpb.C.DPB_INVALID_CONFIG)
assert(not pcall(dpb.new, { arms = 2, epsilon = 1, no_field = 3 }))
none, message, status = bandit:select { eligible = { 9 } }
assert(none == nil and message == "eligible must be below 5, got 9" and status == dpb.C.DPB_INVALID_REQUEST)
none, message, status = bandit:update(12345ULL, 1)
assert(none == nil and message == "DPB_UNKNOWN_TICKET")

-- Tickets in URLs keep all 64 bits.
local arm, ticket = bandit:select { eligible = { 2, 4 } }
assert(arm == 2 or arm == 4)
assert(bandit:cancel((select(2, bandit:select { eligible = { 2, 4 }, values = { 0, 1 } }))))
assert(bandit:cancel((select(2, bandit:select { costs = { 0, 0, 0, 0, 1 }, abstain = false }))))
assert(dpb.ticket(dpb.text(ticket)) == ticket)
assert(dpb.ticket "x" == nil and dpb.ticket(nil) == nil and dpb.ticket "-1" == nil)
assert(bandit:cancel(ticket) and not bandit:cancel(ticket))

-- Snapshots, merges, arms, the clock, features.
local again = assert(dpb.restore(bandit:snapshot()))
assert(again:arms()[4].mean == arms[4].mean)
assert(dpb.restore(bandit:snapshot(), { arms = 5, epsilon = 1, reward_window = 10 }))
assert(not dpb.restore "nothing")
local other = assert(dpb.new { arms = 5, epsilon = 1 })
assert(other:merge(bandit:snapshot()) and other:arms()[4].mean == arms[4].mean)
assert(other:add_arm() == 5 and other:retire_arm(0) and #other:arms() == 6)
local timed = assert(dpb.new { arms = 2, epsilon = 1, clock = 1, reward_window = 1000, clamp_rewards = true })
assert(timed:advance(1000))
local _, late = timed:select()
assert(timed:update(late, 7) and timed:advance(2000) and timed:report().answered == 1)
local shop = { arms = 2, epsilon = 1, reward_window = 9, parts = 2, part_weights = { 0.1, -0.5 } }
shop = assert(dpb.new(shop))
_, late = shop:select()
assert(shop:update(late, 1) and not shop:update_part(late, 0, 1) and shop:update_part(late, 1, 1))
local linear = assert(dpb.new { arms = 3, epsilon = 1, features = 2, feature_model = 1 })
assert(linear:select { features = { 0.5, 0.5 } })
assert(not linear:select { features = { 0.5 } })
local hidden = { arms = 3, epsilon = 1, features = 2, feature_model = 1, private_features = true, reward_window = 9 }
local none, why = dpb.new(hidden)
assert(not none and why:find "codebook must be set")
hidden.codebook = { 1, 0, -1, 0, 0, 1 }
assert(assert(dpb.new(hidden)):select { features = { 0.5, 0.5 } })

local counting = assert(dpb.new { arms = 2, epsilon = 1, expected_users = 10 })
local old = counting:snapshot()
counting = assert(dpb.restore(old))
none, message = counting:select { user = 1 }
assert(none == nil and message:find "call dpb_stored$")
none, message = counting:stored(old)
assert(none == nil and message:find "^snapshot must be of this very handle")
assert(counting:stored(counting:snapshot()) and counting:select { user = 1 })

-- A test of arms.
local tested = assert(dpb.new({ arms = 2, epsilon = 4, control_share = 0.5 }, "dp-tt"))
assert(tested:verdict().state == 0 and tested:verdict().arms == 2)

-- Handles are freed.
for _ = 1, 2000 do dpb.new { arms = 100, epsilon = 1 } end
collectgarbage()
print "passed"
