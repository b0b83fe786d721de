-- SPDX-License-Identifier: MIT
-- What scripts do most: tables, strings, closures and arithmetic.

local function sieve(limit)
  local composite, primes = {}, {}
  for number = 2, limit do
    if not composite[number] then
      primes[#primes + 1] = number
      for multiple = number * number, limit, number do composite[multiple] = true end
    end
  end
  return primes
end

local function queens(size)
  local count, column, rising, falling = 0, {}, {}, {}
  local function place(row)
    if row > size then count = count + 1 return end
    for at = 1, size do
      if not (column[at] or rising[row + at] or falling[row - at]) then
        column[at], rising[row + at], falling[row - at] = true, true, true
        place(row + 1)
        column[at], rising[row + at], falling[row - at] = nil, nil, nil
      end
    end
  end
  place(1)
  return count
end

local function words(count)
  local seen, order, state = {}, {}, 12345
  for _ = 1, count do
    state = (state * 1103515245 + 12345) % 2147483648
    local word = string.format("%x", state // 65536 % 997):rep(2):gsub("a", "zz")
    if not seen[word] then seen[word] = 0 order[#order + 1] = word end
    seen[word] = seen[word] + 1
  end
  table.sort(order, function(a, b)
    if seen[a] ~= seen[b] then return seen[a] > seen[b] end
    return a < b
  end)
  return table.concat(order, " ", 1, 8)
end

local function product(size)
  local a, total = {}, 0.0
  for i = 1, size do
    a[i] = {}
    for j = 1, size do a[i][j] = (i * j % 7) / 4 end
  end
  for i = 1, size do
    for j = 1, size do
      local sum = 0.0
      for k = 1, size do sum = sum + a[i][k] * a[k][j] end
      total = total + sum
    end
  end
  return total
end

local primes = sieve(60000)
print(#primes, primes[#primes])
print(queens(7))
print(words(20000))
print(string.format("%.3f", product(40)))
