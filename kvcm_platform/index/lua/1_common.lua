-- Shared by all functions of the library. The files of this folder are joined in name order
-- behind a shebang line and loaded as one library (index/functions.py).
--
-- KEYS[1] is the base key of one hash tag; its other keys are the base plus a suffix
-- (index/keyspace.py), so they live in the same slot. Layouts of binary values: index/codec.py.
--
-- Every function that changes state takes the generation as its first argument, refuses an
-- older one with OLDGEN, and changes blocks, runs, usage, epoch and stream together.

local WRITING, SERVING, DELETING = 2, 3, 4
local HEADER = 36           -- bytes of a location's header in a block record
local STREAM_LENGTH = 4096  -- entries kept in an event stream, approximately
local GONE_LENGTH = 16384   -- and in the stream of why blocks left

local sub, byte, char, concat, insert, call

-- The server offers its standard libraries only while a function runs, not while it is loaded.
local is_cluster

local function begin()
  sub, byte, char = string.sub, string.byte, string.char
  concat, insert, call = table.concat, table.insert, redis.call
  is_cluster = string.find(call('INFO', 'cluster'), 'cluster_enabled:1', 1, true) ~= nil
end

-- While a Cluster moves a slot key by key, a function could find some of its keys gone and end half-way.
-- This command on a key that is there and one that never is fails on either side of such a move, before
-- anything was changed, and at no other time. (A slot that is moved as a whole does not get here.)
-- A name without a hash tag stands for one key alone.
local function require_whole_slot(base)
  if base and string.find(base, '{', 1, true) then call('EXISTS', base, base .. ':?') end
end

-- VERSION is set in front of these files: functions of several versions live side by side.
local function register(name, callback, flags)
  redis.register_function{function_name = name .. '_' .. VERSION, flags = flags or {}, callback = function(keys, args)
    if not call then begin() end
    if is_cluster then require_whole_slot(keys[1]) end
    return callback(keys, args)
  end}
end

-- kvcm_version: answers when the server has this library.
register('kvcm_version', function() return VERSION end, {'no-writes'})

local function now_ms()
  local t = call('TIME')
  return tonumber(t[1]) * 1000 + math.floor(tonumber(t[2]) / 1000)
end

-- Refuses a duty whose fencing number is lower than the highest seen here: its lease was another's meanwhile.
-- Duties with leases of their own do not fence each other: `duty` names them, '' is the one of what is due.
local function enter_fenced(base, fence, duty)
  local field = 'fence' .. duty
  local highest = call('HGET', base, field)
  if highest and tonumber(highest) > tonumber(fence) then return redis.error_reply('FENCED ' .. highest) end
  if highest ~= fence then call('HSET', base, field, fence) end
  return nil
end

-- Refuses a caller of an older generation; adopts a newer one. Returns nil when the call may go on.
-- caller: the generation, from background duties '<generation>:<fencing number>[:<duty>]'.
local function enter(base, caller)
  local known = call('HGET', base, 'gen')
  if known == caller then return nil end
  local generation, fence, duty = string.match(caller, '^(%d+):?(%d*)(.*)$')
  if known and tonumber(known) > tonumber(generation) then
    return redis.error_reply('OLDGEN ' .. known)
  end
  if fence ~= '' then
    local refused = enter_fenced(base, fence, duty)
    if refused then return refused end
  end
  -- A shard that begins in this life has nothing that an older one could have lost.
  if not known and call('EXISTS', base .. ':b') == 0 then call('HSET', base, 'checked', generation) end
  if known ~= generation then call('HSET', base, 'gen', generation) end
  return nil
end

-- Splits packed 8-byte keys.
local function unpack_keys(blob, from, to)
  local keys = {}
  for i = from or 1, to or (#blob / 8) do keys[#keys + 1] = sub(blob, i * 8 - 7, i * 8) end
  return keys
end

-- Iterates the locations of a record: calls visit(entry_start, entry_end, status, ref).
-- The visitor may return true to stop.
local function each_location(record, visit)
  local at = 1
  while at <= #record do
    local status, _, ref = struct.unpack('>BBI3', record, at)
    local length = struct.unpack('>I3', record, at + 33)
    local stop = at + HEADER + length - 1
    if visit(at, stop, status, ref) then return end
    at = stop + 1
  end
end

-- Start of the location with this id and status, or nil.
local function location_at(record, id, wanted)
  local found
  each_location(record, function(at, _, status)
    if status == wanted and sub(record, at + 5, at + 12) == id then found = at end
    return found
  end)
  return found
end

-- Bytes of the location that starts at `at`.
local function size_at(record, at) return (struct.unpack('>I6', record, at + 15)) end

-- Whether a record is one location alone, as nearly all are.
local function is_single(record) return struct.unpack('>I3', record, 34) + HEADER == #record end

-- Usage changes collected during one call: moved(ref, from, to, bytes, blocks) with states w, s, p or nil.
local function usage_delta()
  local delta = {}
  local function add(field, amount) delta[field] = (delta[field] or 0) + amount end
  local self = {}
  function self.moved(ref, from, to, bytes, count)
    count = count or 1
    if from then
      add('b:' .. ref .. ':' .. from, -bytes)
      add('n:' .. ref .. ':' .. from, -count)
    end
    if to then
      add('b:' .. ref .. ':' .. to, bytes)
      add('n:' .. ref .. ':' .. to, count)
    end
  end
  function self.apply(base)
    for field, amount in pairs(delta) do
      if amount ~= 0 and tonumber(call('HINCRBY', base, field, string.format('%d', amount))) == 0 then
        call('HDEL', base, field)
      end
    end
  end
  return self
end

-- Ends a change: usage, sequence, epoch and one stream entry a kind of event.
-- runs: kind of event -> set of run names whose cached blocks are not right any more, for search caches.
local function leave(base, usage, events, runs)
  usage.apply(base)
  call('HINCRBY', base, 'seq', 1)
  for kind, keys in pairs(events or {}) do
    if #keys > 0 then
      local names = {}
      for run in pairs(runs[kind] or {}) do names[#names + 1] = run end
      local epoch = call('HINCRBY', base, 'epoch', 1)
      call('XADD', base .. ':e', 'MAXLEN', '~', STREAM_LENGTH, '*', 'e', epoch, 't', kind, 'k', concat(keys),
        'r', concat(names))
    end
  end
end

-- Notes why blocks left, for those who ask later (index/gone.py). With an empty reason nobody will.
local function note_gone(base, reason, keys)
  if reason ~= '' and #keys > 0 then
    call('XADD', base .. ':g', 'MAXLEN', '~', GONE_LENGTH, '*', 'w', reason, 'k', concat(keys))
  end
end

-- Takes keys out of their runs; a run without keys leaves the recency order, and its uses are forgotten.
-- removed: run name -> set of 8-byte keys.
local function forget_runs(base, removed)
  for run, gone in pairs(removed) do
    local blob = call('HGET', base .. ':n', run)
    if blob then
      local kept = {}
      for _, key in ipairs(unpack_keys(blob)) do
        if not gone[key] then kept[#kept + 1] = key end
      end
      if #kept == 0 then
        call('HDEL', base .. ':n', run)
        for _, order in ipairs({':r', ':h', ':u'}) do call('ZREM', base .. order, run) end
      else
        call('HSET', base .. ':n', run, concat(kept))
      end
    end
  end
end

local function note_removed(removed, run, key)
  removed[run] = removed[run] or {}
  removed[run][key] = true
end

-- Place of a run in the recency order: by time, within one tick the deepest first.
local function score(tick_ms, depth)
  return string.format('%.0f', tick_ms * 4096 + 4095 - math.min(depth, 4095))
end

-- Puts a location on the list of pending deletions.
-- flags: 'd' deletion of a block; 'w' deletion of a block that was being written; 'f' failed write; 'g' second
-- pass over a failed or removed write, since a late writer may still come; 'o' goes to the orphan list; 'e' and the
-- id of a reclaim run (8 bytes): a deletion that this run chose, 'E' once its storage has refused it.
local function add_pending(base, due_ms, flags, key, entry)
  local member = sub(entry, 6, 13) .. key
  call('ZADD', base .. ':d', due_ms, member)
  call('HSET', base .. ':p', member, flags .. entry)
end

-- The location of an entry on that list, and the reclaim run that chose it, or nil.
local function pending_entry(value)
  local flag = byte(value)
  if flag == 101 or flag == 69 then return sub(value, 10), sub(value, 2, 9) end -- 'e', 'E'
  return sub(value, 2), nil
end

local function hex(bytes) return (string.gsub(bytes, '.', function(c) return string.format('%02x', byte(c)) end)) end

-- What reclaim runs did and what became of it, collected during one call (index/evicting.py):
-- {tag}:er  <run in hex>:<what> -> blocks, <run in hex>:<what>b -> bytes, with what = m marked, f freed,
--           x refused by the storage and waiting, o left behind as orphans.
local function run_accounts()
  local delta, self = {}, {}
  function self.add(run, what, count, bytes)
    local field = hex(run) .. ':' .. what
    delta[field] = (delta[field] or 0) + count
    delta[field .. 'b'] = (delta[field .. 'b'] or 0) + bytes
  end
  function self.apply(base)
    for field, amount in pairs(delta) do
      if amount ~= 0 and call('HINCRBY', base .. ':er', field, string.format('%d', amount)) == 0 then
        call('HDEL', base .. ':er', field)
      end
    end
  end
  return self
end

-- Marks a SERVING location DELETING, due at `due_ms`. Returns the record as it is then, and the location's run.
local function retire(base, usage, key, record, at, due_ms)
  local _, _, ref = struct.unpack('>BBI3', record, at)
  local stop = at + HEADER + struct.unpack('>I3', record, at + 33) - 1
  usage.moved(ref, 's', 'p', size_at(record, at))
  add_pending(base, due_ms, 'd', key, char(DELETING) .. sub(record, at + 1, stop))
  return sub(record, 1, at - 1) .. char(DELETING) .. sub(record, at + 1), sub(record, at + 5, at + 14)
end
