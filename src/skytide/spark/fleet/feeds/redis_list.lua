-- One step of a walk over all streams whose keys match: the next cursor, the keys as JSON, and of each
-- the entries ever added, the entries there are, and the two numbers of the last id. A key may come twice.
-- Arguments: the cursor, the pattern, and how many keys to scan.
local step = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3], 'TYPE', 'stream')
local numbers, added, length, last = {}
for i, key in ipairs(step[2]) do
  local info = redis.call('XINFO', 'STREAM', key)
  if i == 1 then  -- names and values in turn, for all streams in the same places
    local place = {}
    for at = 1, #info, 2 do place[info[at]] = at + 1 end
    added, length, last = place['entries-added'], place['length'], place['last-generated-id']
  end
  numbers[i] = string.format('%.0f %.0f ', info[added], info[length]) .. string.gsub(info[last], '-', ' ')
end
return {step[1], cjson.encode(step[2]), table.concat(numbers, ' ')}
