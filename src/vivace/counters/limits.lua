-- The law of scheduling/limits.py, where several gateways meet. Each call is one step for all of
-- them, by the clock of this server; read that module first.
--
--   KEYS  of one owner in one tier: arrivals (hash), charges (list), turns (sorted set)
--   ARGV  which function, now ('' for the server's clock), and what it takes
--
-- A charge is 'ID AT COST AT COST AT COST', once for each of requests, input and output, all in
-- seconds. A settled one has '-' for an ID, and two that follow each other become one. An open one
-- has its ID among the turns, with the time until which it is believed: whose gateway has died is
-- taken to have used what it was charged. All keys go by themselves when they say nothing any more.

local arrivals_key, charges_key, turns_key = KEYS[1], KEYS[2], KEYS[3]
local MINUTE, GRAIN, NEVER = 60, 1e-4, -math.huge
local SETTLED = '-'
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

local FORM = '^(%S+) (%S+) (%S+) (%S+) (%S+) (%S+) (%S+)$'

local function read_charges()
  local charges = redis.call('LRANGE', charges_key, 0, -1)
  for place, text in ipairs(charges) do
    local id, at1, cost1, at2, cost2, at3, cost3 = string.match(text, FORM)
    charges[place] = {
      id = id,
      at = { tonumber(at1), tonumber(at2), tonumber(at3) },
      cost = { tonumber(cost1), tonumber(cost2), tonumber(cost3) },
      text = text,
    }
  end
  return charges
end

local function written(charge)
  local at, cost = charge.at, charge.cost
  return table.concat({
    charge.id, exact(at[1]), exact(cost[1]), exact(at[2]), exact(cost[2]), exact(at[3]), exact(cost[3]),
  }, ' ')
end

local function joined(one, other)
  local both = { id = SETTLED, at = {}, cost = {} }
  for kind = 1, 3 do
    both.at[kind] = math.max(one.at[kind], other.at[kind] - one.cost[kind])
    both.cost[kind] = one.cost[kind] + other.cost[kind]
  end
  return both
end

-- Writes back what has no text of its own any more, and all that follows it.
local function write_charges(charges)
  local fewer = {}
  for _, charge in ipairs(charges) do
    local last = fewer[#fewer]
    if last and last.id == SETTLED and charge.id == SETTLED then
      fewer[#fewer] = joined(last, charge)
    else
      fewer[#fewer + 1] = charge
    end
  end
  local same = 0
  while same < #fewer and fewer[same + 1].text do
    same = same + 1
  end
  if same == 0 then
    redis.call('DEL', charges_key)
  else
    redis.call('LTRIM', charges_key, 0, same - 1)
  end
  for first = same + 1, #fewer, 1000 do
    local texts = {}
    for place = first, math.min(first + 999, #fewer) do
      texts[#texts + 1] = fewer[place].text or written(fewer[place])
    end
    redis.call('RPUSH', charges_key, unpack(texts))
  end
  local arrivals = { NEVER, NEVER, NEVER }
  for _, charge in ipairs(fewer) do
    for kind = 1, 3 do
      arrivals[kind] = advance(arrivals[kind], charge.cost[kind], charge.at[kind])
    end
  end
  return arrivals
end

-- Those of the dead stay charged as they were, and do not run any more.
local function bury(now, arrivals, lease)
  local dead = redis.call('ZRANGEBYSCORE', turns_key, '-inf', exact(now))
  if #dead == 0 then
    return
  end
  redis.call('ZREMRANGEBYSCORE', turns_key, '-inf', exact(now))
  local gone = {}
  for _, id in ipairs(dead) do
    gone[id] = true
  end
  local charges = read_charges()
  for _, charge in ipairs(charges) do
    if gone[charge.id] then
      charge.id, charge.text = SETTLED, nil
    end
  end
  write_charges(charges)
  keep(now, arrivals, lease)
end

-- What gateways ask ------------------------------------------------------------------------------

local ask = {}

-- id, seconds until it must be renewed, how many at a time, costs; '' where there is no limit.
-- Whether it passed, now, the arrivals, and how many run: before it if it did not, and with it if so.
function ask.admit(id, lease, most, ...)
  local now, arrivals = known()
  lease = tonumber(lease)
  bury(now, arrivals, lease)
  local running = redis.call('ZCARD', turns_key)
  local costs, passes, rated = {}, true, false
  if most ~= '' and running >= tonumber(most) then
    passes = false
  end
  for kind = 1, 3 do
    local cost = tonumber((select(kind, ...)))
    rated = rated or cost ~= nil
    costs[kind] = cost or 0
    if cost and advance(arrivals[kind], cost, now) - now - MINUTE > GRAIN then
      passes = false
    end
  end
  if passes then
    running = running + 1
    for kind = 1, 3 do
      arrivals[kind] = advance(arrivals[kind], costs[kind], now)
    end
    if rated then
      redis.call('RPUSH', charges_key, written({ id = id, at = { now, now, now }, cost = costs }))
    end
    redis.call('ZADD', turns_key, exact(now + lease), id)
    keep(now, arrivals, lease)
  end
  return {
    passes and 1 or 0, exact(now), exact(arrivals[1]), exact(arrivals[2]), exact(arrivals[3]), running,
  }
end

-- id, seconds until those that still run must be renewed, costs of what was used. One that is not
-- open changes nothing.
function ask.settle(id, lease, ...)
  local now = known()
  if redis.call('ZREM', turns_key, id) == 0 then
    return 0
  end
  local charges, more, beyond = read_charges(), { 0, 0, 0 }, false
  for _, charge in ipairs(charges) do
    if charge.id == id then
      for kind = 1, 3 do
        local used = tonumber((select(kind, ...))) or 0
        if used > charge.cost[kind] then
          more[kind], beyond = used - charge.cost[kind], true
        else
          charge.cost[kind] = used
        end
      end
      charge.id, charge.text = SETTLED, nil
    end
  end
  if beyond then
    charges[#charges + 1] = { id = SETTLED, at = { now, now, now }, cost = more }
  end
  local arrivals = write_charges(charges)
  local runs = redis.call('EXISTS', turns_key) == 1
  if runs or math.max(arrivals[1], arrivals[2], arrivals[3]) > now then
    keep(now, arrivals, runs and tonumber(lease) or 0)
  else
    redis.call('DEL', arrivals_key, charges_key)
  end
  return 1
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

function ask.look()
  local now, arrivals = known()
  return { exact(now), exact(arrivals[1]), exact(arrivals[2]), exact(arrivals[3]) }
end

return ask[ARGV[1]](unpack(ARGV, 3))
