-- Of each stream: its entries after one id, up to another, as lines; and how many there are, with the id of the last of them.
-- Arguments: the format, the columns as JSON, how many entries at most, and for each key the two ids.
local format, columns, most = ARGV[1], cjson.decode(ARGV[2]), tonumber(ARGV[3])
local place = {}
for c, name in ipairs(columns) do place[name] = c end
local odd = '[\\\n\r\31]'
local escapes = {['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\31'] = '\\u'}

local function cells(fields)
  local values = {}
  for c = 1, #columns do values[c] = '' end
  for f = 1, #fields, 2 do
    local c, value = place[fields[f]], fields[f + 1]
    if c then
      if value == '' then
        value = '\\e'
      elseif string.find(value, odd) then
        value = string.gsub(value, odd, escapes)
      end
      values[c] = value
    end
  end
  return table.concat(values, '\31')
end

local out = {}
for i, key in ipairs(KEYS) do
  local after = ARGV[2 * i + 2]
  local entries = most > 0 and redis.call('XRANGE', key, '(' .. after, ARGV[2 * i + 3], 'COUNT', most) or {}
  most = most - #entries
  local lines = {}
  for e, entry in ipairs(entries) do
    if format == 'fields' then
      lines[e] = cells(entry[2])
    else
      lines[e] = string.gsub(entry[2][2], '[\n\r]', ' ')
    end
  end
  lines[#lines + 1] = ''
  out[2 * i - 1] = table.concat(lines, '\n')
  out[2 * i] = #entries .. ' ' .. (#entries > 0 and entries[#entries][1] or after)
end
return out
