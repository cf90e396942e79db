--- libdpb for LuaJIT and OpenResty. README.md has the guide, dpb.h documents each call.
-- A call that fails returns nil, a message and the number of the status.
local ffi = require "ffi"
ffi.cdef(require "dpb_cdef")
ffi.cdef "unsigned long long strtoull(const char *, char **, int);"

local dpb = { NAME = "libdpb.so.0" }
local flags = {
  clamp_rewards = "DPB_CLAMP_REWARDS", learn_clip = "DPB_LEARN_CLIP", private_features = "DPB_PRIVATE_FEATURES",
  rigorous_index = "DPB_RIGOROUS_INDEX", shuffle_printed = "DPB_SHUFFLE_PRINTED",
}
local lists = {
  -- begin generated lists
  eligible = "uint32_t[?]",
  values = "double[?]",
  costs = "double[?]",
  examined = "double[?]",
  features = "float[?]",
  -- end generated lists
}
local failure = ffi.typeof "dpb_error[1]"
local handle = ffi.typeof "dpb_bandit *[1]"
local size = ffi.typeof "size_t[1]"
local bytes = ffi.typeof "uint8_t[?]"
local C

--- Loads the library: dpb.NAME, or the path of libdpb.so. The constructors load dpb.NAME if nothing is loaded.
function dpb.load(path)
  C = ffi.load(path or dpb.NAME)
  dpb.C = C -- all of dpb.h
  return dpb
end

local function refused(status, err)
  local message = err and ffi.string(err[0].message) or ""
  return nil, message ~= "" and message or ffi.string(C.dpb_status_name(status)), status
end

-- A configuration from a table of the fields of dpb_config. What it points to must live as long as `kept`.
local function configure(given)
  if not C then dpb.load() end
  local config, kept = ffi.new "dpb_config[1]", {}
  C.dpb_config_init_sized(config, ffi.sizeof "dpb_config", given.arms, given.epsilon)
  for name, value in pairs(given) do
    if flags[name] then
      if value then config[0].flags = config[0].flags + C[flags[name]] end
    elseif name == "test_seed" or name == "fleet_key" then
      if #value ~= 32 then error(name .. " must have 32 bytes, got " .. #value) end
      kept[#kept + 1] = bytes(32, value:byte(1, 32))
      config[0][name] = kept[#kept]
    elseif name == "codebook" then -- a list of all numbers, row by row
      kept[#kept + 1] = ffi.new("float[?]", #value, value)
      config[0].codebook, config[0].codebook_len = kept[#kept], #value / given.features
    else
      config[0][name] = value
    end
  end
  return config, kept
end

local function own(status, out, err)
  if status ~= 0 then return refused(status, err) end
  return ffi.gc(out[0], C.dpb_free)
end

--- A bandit with the configuration of a table, such as {arms = 10, epsilon = 1}, and the policy of this name, or the
-- recommended one.
function dpb.new(given, policy)
  local config, kept = configure(given)
  local out, err = handle(), failure()
  local status = policy and C.dpb_new_policy(policy, config, out, err)
  if not status then status = C.dpb_new(config, out, err) end
  kept[1] = nil -- until here
  return own(status, out, err)
end

--- A bandit that continues from a snapshot; with a table, by another configuration.
function dpb.restore(snapshot, given, policy)
  if not C then dpb.load() end
  local out, err = handle(), failure()
  if not given then return own(C.dpb_restore(snapshot, #snapshot, out, err), out, err) end
  local config, kept = configure(given)
  local status = C.dpb_restore_as(policy, config, snapshot, #snapshot, out, err)
  kept[1] = nil
  return own(status, out, err)
end

--- A ticket, a number of 64 bits, as text for a URL; and back, or nil for other text.
function dpb.text(ticket) return (tostring(ticket):gsub("ULL$", "")) end
function dpb.ticket(text)
  if not text or #text > 20 or not text:find "^%d+$" then return nil end
  return ffi.cast("uint64_t", ffi.C.strtoull(text, nil, 10))
end

--- Decides by a published table's salt and the weights of a context, without a bandit: the arm, from 0, the decision's id as
-- 16 hexadecimal digits, and its propensity. A context that the table does not have is "".
function dpb.decide(salt, weights, unit, context)
  if not C then dpb.load() end
  if (salt .. (context or "") .. unit):find "%z" then return nil, "salt, context and unit must have no NUL" end
  local out, err = ffi.new "dpb_elsewhere[1]", failure()
  local status = C.dpb_decide(ffi.new("uint64_t[?]", #weights, weights), #weights, salt, context, unit, out, err)
  if status ~= 0 then return refused(status, err) end
  return out[0].arm, bit.tohex(out[0].id), out[0].propensity
end

local bandit = {}
local decision = ffi.new "dpb_decision[1]" -- one thread runs a Lua state, and select does not yield

--- The arm, from 0, its ticket and its propensity. The request is a table of the fields of dpb_request but slots: numbers,
-- and lists of numbers.
function bandit:select(given)
  local status
  if given then
    local request, kept = ffi.new "dpb_request[1]", {}
    C.dpb_request_init_sized(request, ffi.sizeof "dpb_request")
    for name, value in pairs(given) do
      if lists[name] then
        kept[name] = ffi.new(lists[name], math.max(#value, 1), value)
        request[0][name], request[0][name .. "_len"] = kept[name], #value
      elseif name == "slots" then
        error "slots: call dpb.C.dpb_select_for"
      else
        request[0][name] = value
      end
    end
    status = C.dpb_select_for(self, request, decision)
    if status ~= 0 then
      local err = failure()
      local _ = C.dpb_request_check(self, request, err)
      return refused(status, err)
    end
    kept.request = request
  else
    status = C.dpb_select(self, decision)
    if status ~= 0 then return refused(status) end
  end
  return decision[0].arm, decision[0].ticket, decision[0].propensity
end

local function done(status, err)
  if status ~= 0 then return refused(status, err) end
  return true
end

function bandit:update(ticket, reward) return done(C.dpb_update(self, ticket, reward)) end
function bandit:update_part(ticket, part, value) return done(C.dpb_update_part(self, ticket, part, value)) end
function bandit:cancel(ticket) return done(C.dpb_cancel(self, ticket)) end
function bandit:cancel_all() return done(C.dpb_cancel_all(self)) end
function bandit:advance(now) return done(C.dpb_advance(self, now)) end
function bandit:skip(ticks) return done(C.dpb_skip(self, ticks)) end
function bandit:next_period() return done(C.dpb_next_period(self)) end
function bandit:retire_arm(arm) return done(C.dpb_retire_arm(self, arm)) end
function bandit:policy() return ffi.string(C.dpb_policy_name(self)) end

function bandit:add_arm(id)
  local arm, err = ffi.new "uint32_t[1]", failure()
  local status = C.dpb_add_arm(self, id or 0, arm, err)
  if status ~= 0 then return refused(status, err) end
  return arm[0]
end

local function structure(handle, name, read)
  local out = ffi.new(name .. "[1]")
  out[0].struct_size = ffi.sizeof(name)
  local status = read(handle, out)
  if status ~= 0 then return refused(status) end
  return ffi.new(name, out[0])
end

--- A structure dpb_report: report.decisions, report.epsilon_spent.
function bandit:report() return structure(self, "dpb_report", C.dpb_report_read) end

--- A structure dpb_verdict of dp-tt: verdict.state, verdict.leader, verdict.low.
function bandit:verdict() return structure(self, "dpb_verdict", C.dpb_verdict_read) end

--- A list of the arms, from 1: mean, width, pulls, active and effective_pulls of each.
function bandit:arms()
  local n, arms, room, status = size(), nil, 0, nil
  repeat
    arms, room = ffi.new("dpb_arm[?]", math.max(room, 1)), room
    status = C.dpb_arms_read(self, arms, room, n)
    room = tonumber(n[0])
  until status ~= C.DPB_BUFFER_TOO_SMALL
  if status ~= 0 then return refused(status) end
  local list = {}
  for i = 0, room - 1 do
    list[i + 1] = {
      -- begin generated arm
      mean = arms[i].mean,
      width = arms[i].width,
      pulls = tonumber(arms[i].pulls),
      active = arms[i].active == 1,
      effective_pulls = arms[i].effective_pulls,
      -- end generated arm
    }
  end
  return list
end

local function written(call)
  local n, err, buf, room, status = size(), failure(), nil, 0, nil
  repeat
    buf = bytes(math.max(room, 1))
    status = call(buf, room, n, err)
    room = tonumber(n[0])
  until status ~= C.DPB_BUFFER_TOO_SMALL
  if status ~= 0 then return refused(status, err) end
  return ffi.string(buf, n[0])
end

--- What was released, as a string; and what another handle released.
function bandit:snapshot()
  return written(function(buf, room, n, err) return C.dpb_snapshot(self, buf, room, n, err) end)
end

--- What the handle guarantees: JSON in the fields of the registry of deployments; with true a page of prose.
function bandit:statement(prose)
  local form = prose and C.DPB_STATEMENT_PROSE or C.DPB_STATEMENT_JSON
  return written(function(buf, room, n, err) return C.dpb_statement(self, form, buf, room, n, err) end)
end

--- Says that a snapshot of this handle is stored: from now on a restart finds it or a later one (dpb_stored).
function bandit:stored(snapshot)
  local err = failure()
  return done(C.dpb_stored(self, snapshot, #snapshot, err), err)
end

function bandit:merge(snapshot)
  local err = failure()
  return done(C.dpb_merge(self, snapshot, #snapshot, err), err)
end

ffi.metatype("dpb_bandit", { __index = bandit })
return dpb
