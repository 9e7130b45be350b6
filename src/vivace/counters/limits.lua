-- The law of scheduling/limits.py, where several gateways meet. Each call is one step for all of
-- them, by the clock of this server; read that module first.
--
--   KEYS  of one owner in one tier: arrivals (hash), charges (string), turns (sorted set)
--   ARGV  which function, now ('' for the server's clock), and what it takes
--
-- The charges stand one behind the other: an id, and for each of requests, input and output when it
-- was charged and what it cost, in seconds. A settled one has no id, and two that follow each other
-- become one. An open one is also among the turns, with the time until which it is believed: whose
-- gateway has died is taken to have used what it was charged.
--
-- What was lost, because this server was started anew or not to be reached, is told again by those
-- who know of it (restore), as if it were charged and settled now.
--
-- A charge after which all that was charged would be given back by now, had it begun then, can
-- never matter again, and is forgotten. All keys go by themselves when they say nothing any more.

local arrivals_key, charges_key, turns_key = KEYS[1], KEYS[2], KEYS[3]
local MINUTE, GRAIN, NEVER = 60, 1e-4, -math.huge
local SETTLED = string.rep('-', 24)
local FORM, ID_SIZE, SIZE = '<dddddd', 24, 72
local AT_ONCE = 100 -- of the dead, so that nobody waits for a great burial
local BACK = 1 -- seconds that the clock may go back; beyond, what we know means nothing
local SLACK = 1 -- seconds that a key outlives what it says

local function exact(number)
  return string.format('%.17g', number)
end

-- What is known ----------------------------------------------------------------------------------

local function clock()
  local now = tonumber(ARGV[2])
  if not now then
    local time = redis.call('TIME')
    now = time[1] + time[2] / 1e6
  end
  return now
end

-- Now, which never goes back, and the arrivals.
local function known()
  local now = clock()
  local read = redis.call('HMGET', arrivals_key, '1', '2', '3', 'now')
  local last = tonumber(read[4] or now)
  if last > now + BACK then
    redis.call('DEL', arrivals_key, charges_key, turns_key)
    return now, { NEVER, NEVER, NEVER }
  end
  local arrivals = {}
  for kind = 1, 3 do
    arrivals[kind] = read[kind] and tonumber(read[kind]) or NEVER
  end
  return math.max(now, last), arrivals
end

local function keep(now, arrivals, seconds)
  local latest = math.max(arrivals[1], arrivals[2], arrivals[3])
  local longest = math.max(latest - now, seconds) + SLACK
  redis.call(
    'HSET', arrivals_key, 'now', exact(now),
    '1', exact(arrivals[1]), '2', exact(arrivals[2]), '3', exact(arrivals[3])
  )
  local milliseconds = string.format('%.0f', longest * 1000)
  redis.call('PEXPIRE', arrivals_key, milliseconds)
  redis.call('PEXPIRE', charges_key, milliseconds)
  redis.call('PEXPIRE', turns_key, string.format('%.0f', (seconds + SLACK) * 1000))
end

-- Charges ----------------------------------------------------------------------------------------

local function advance(arrival, cost, at)
  return math.max(arrival, at) + cost
end

local function written(id, at, costs)
  return id .. struct.pack(FORM, at, costs[1], at, costs[2], at, costs[3])
end

-- Two that are settled and follow each other, as one.
local function joined(one, other)
  local a1, c1, a2, c2, a3, c3 = struct.unpack(FORM, one, ID_SIZE + 1)
  local b1, d1, b2, d2, b3, d3 = struct.unpack(FORM, other, ID_SIZE + 1)
  return SETTLED .. struct.pack(
    FORM,
    math.max(a1, b1 - c1), c1 + d1,
    math.max(a2, b2 - c2), c2 + d2,
    math.max(a3, b3 - c3), c3 + d3
  )
end

local function is_settled(charges, place)
  return string.sub(charges, place, place + ID_SIZE - 1) == SETTLED
end

-- The charges with this one settled: it cost no more than these, where they are given.
local function settled(charges, id, costs)
  local place = string.find(charges, id, 1, true)
  if not place then
    return charges
  end
  local a1, c1, a2, c2, a3, c3 = struct.unpack(FORM, charges, place + ID_SIZE)
  if costs then
    c1, c2, c3 = math.min(c1, costs[1]), math.min(c2, costs[2]), math.min(c3, costs[3])
  end
  local one = SETTLED .. struct.pack(FORM, a1, c1, a2, c2, a3, c3)
  local before, after = place - 1, place + SIZE
  if before > 0 and is_settled(charges, place - SIZE) then
    one = joined(string.sub(charges, place - SIZE, before), one)
    before = before - SIZE
  end
  if after < #charges and is_settled(charges, after) then
    one = joined(one, string.sub(charges, after, after + SIZE - 1))
    after = after + SIZE
  end
  return string.sub(charges, 1, before) .. one .. string.sub(charges, after)
end

-- The charges with one more, which is settled.
local function with_settled(charges, at, costs)
  local one = written(SETTLED, at, costs)
  local last = #charges - SIZE + 1
  if last > 0 and is_settled(charges, last) then
    charges, one = string.sub(charges, 1, last - 1), joined(string.sub(charges, last), one)
  end
  return charges .. one
end

-- The arrivals, each the latest that follows from beginning at any of the charges; and the charges
-- without those before the first from which anything follows that is still to come.
local function told_by(charges, now)
  local l1, l2, l3, s1, s2, s3 = NEVER, NEVER, NEVER, 0, 0, 0
  local first = #charges + 1
  for place = #charges - SIZE + 1, 1, -SIZE do
    local a1, c1, a2, c2, a3, c3 = struct.unpack(FORM, charges, place + ID_SIZE)
    s1, s2, s3 = s1 + c1, s2 + c2, s3 + c3
    local t1, t2, t3 = a1 + s1, a2 + s2, a3 + s3
    if t1 > now or t2 > now or t3 > now then
      first = place
    end
    l1, l2, l3 = math.max(l1, t1), math.max(l2, t2), math.max(l3, t3)
  end
  return { l1, l2, l3 }, string.sub(charges, first)
end

-- Those of the dead stay charged as they were, and do not run any more.
local function bury(now, arrivals, lease)
  local dead = redis.call('ZRANGEBYSCORE', turns_key, '-inf', exact(now), 'LIMIT', 0, AT_ONCE)
  if #dead == 0 then
    return
  end
  redis.call('ZREM', turns_key, unpack(dead))
  local charges = redis.call('GET', charges_key) or ''
  for _, id in ipairs(dead) do
    charges = settled(charges, id)
  end
  redis.call('SET', charges_key, charges)
  keep(now, arrivals, lease)
end

-- What gateways ask ------------------------------------------------------------------------------

local ask = {}

local function told(first, now, arrivals, last)
  return { first, exact(now), exact(arrivals[1]), exact(arrivals[2]), exact(arrivals[3]), last }
end

local function three(...)
  local numbers = {}
  for kind = 1, 3 do
    numbers[kind] = tonumber((select(kind, ...))) or false
  end
  return numbers
end

-- id, seconds until it must be renewed, how many at a time, costs; '' where there is no limit.
-- Whether it passed, now, the arrivals, and how many run: without it if it did not, with it if so.
function ask.admit(id, lease, most, ...)
  local now, arrivals = known()
  lease = tonumber(lease)
  bury(now, arrivals, lease)
  local running = redis.call('ZCOUNT', turns_key, '(' .. exact(now), '+inf')
  local passes = most == '' or running < tonumber(most)
  local costs, rated, idle = three(...), false, true
  for kind = 1, 3 do
    local cost = costs[kind]
    if cost and advance(arrivals[kind], cost, now) - now - MINUTE > GRAIN then
      passes = false
    end
    rated = rated or cost
    idle = idle and arrivals[kind] <= now
    costs[kind] = cost or 0
  end
  if passes then
    running = running + 1
    for kind = 1, 3 do
      arrivals[kind] = advance(arrivals[kind], costs[kind], now)
    end
    if rated then
      redis.call(idle and 'SET' or 'APPEND', charges_key, written(id, now, costs))
    end
    redis.call('ZADD', turns_key, exact(now + lease), id)
    keep(now, arrivals, lease)
  end
  return told(passes and 1 or 0, now, arrivals, running)
end

-- id, seconds until those that still run must be renewed, what it was charged, what it used. One
-- that is not open changes nothing. Whether it did, now, and the arrivals.
function ask.settle(id, lease, ...)
  local now, before = known()
  if redis.call('ZREM', turns_key, id) == 0 then
    return told(0, now, before)
  end
  local charged, used, beyond = three(...), three(select(4, ...)), false
  local more = { 0, 0, 0 }
  for kind = 1, 3 do
    used[kind] = used[kind] or 0
    if used[kind] > (charged[kind] or used[kind]) then
      more[kind], beyond = used[kind] - charged[kind], true
    end
  end
  local charges = redis.call('GET', charges_key) or ''
  if beyond then
    charges = with_settled(charges, now, more)
  end
  local arrivals, matter = told_by(settled(charges, id, used), now)
  local runs = redis.call('EXISTS', turns_key) == 1
  if matter ~= '' then
    redis.call('SET', charges_key, matter)
  else
    redis.call('DEL', charges_key)
  end
  if runs or matter ~= '' then
    keep(now, arrivals, runs and tonumber(lease) or 0)
  else
    redis.call('DEL', arrivals_key)
  end
  return told(1, now, arrivals)
end

-- seconds until the next time, ids: those that are open stay so.
function ask.renew(lease, ...)
  local now, arrivals = known()
  lease = tonumber(lease)
  local renewed = 0
  for _, id in ipairs({ ... }) do
    if redis.call('ZSCORE', turns_key, id) then
      redis.call('ZADD', turns_key, exact(now + lease), id)
      renewed = renewed + 1
    end
  end
  if renewed > 0 then
    keep(now, arrivals, lease)
  end
  return renewed
end

-- seconds until those that run must be renewed; of each limit the seconds that are used up, as far as
-- a gateway knows, and those that it gave out alone; ids of its charges that run. Now and the
-- arrivals, behind a 1.
function ask.restore(lease, ...)
  local now, arrivals = known()
  local used, alone, costs, any = three(...), three(select(4, ...)), { 0, 0, 0 }, false
  for kind = 1, 3 do
    local missing = math.max(used[kind] - math.max(arrivals[kind] - now, 0), 0)
    costs[kind] = missing + alone[kind]
    if costs[kind] > 0 then
      arrivals[kind], any = advance(arrivals[kind], costs[kind], now), true
    end
  end
  if any then
    redis.call('SET', charges_key, with_settled(redis.call('GET', charges_key) or '', now, costs))
  end
  for _, id in ipairs({ select(7, ...) }) do
    redis.call('ZADD', turns_key, exact(now + lease), id)
  end
  keep(now, arrivals, redis.call('EXISTS', turns_key) == 1 and tonumber(lease) or 0)
  return told(1, now, arrivals)
end

function ask.look()
  local now, arrivals = known()
  return told(1, now, arrivals)
end

return ask[ARGV[1]](unpack(ARGV, 3))
