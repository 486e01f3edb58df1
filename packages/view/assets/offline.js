/** Answers of an exported page, computed from its embedded data. */

const LISTS = /^\/api\/runs\/[^/]+\/rollouts$/
const METRICS = /^\/api\/runs\/[^/]+\/metrics$/

const BINS = 20

/**
 * Counts values in equal bins.
 *
 * @param {readonly number[]} values
 */
const histogramOf = (values) => {
  if (values.length === 0) return { edges: [], counts: [] }
  const [low, high] = values.reduce(([a, b], x) => [Math.min(a, x), Math.max(b, x)], [Infinity, -Infinity])
  const bins = low === high ? 1 : BINS
  const width = (high - low) / bins || 1
  const counts = Array(bins).fill(0)
  for (const value of values) counts[Math.min(bins - 1, Math.floor((value - low) / width))] += 1
  return {
    edges: Array.from({ length: bins + 1 }, (_, i) => (i === bins && low < high ? high : low + i * width)),
    counts,
  }
}

const fieldOf = (row, field) => (field.startsWith('part.') ? row.parts[field.slice(5)] : row[field])

const within = (value, least, most) =>
  (least === undefined || value >= Number(least)) && (most === undefined || value <= Number(most))

const partWithin = (row, limit, sign) => {
  if (limit === undefined) return true
  const at = limit.lastIndexOf(':')
  const value = row.parts[limit.slice(0, at)]
  return value !== undefined && sign * (value - Number(limit.slice(at + 1))) >= 0
}

const isFlag = (value, wanted) => wanted === undefined || value === (String(wanted) === 'true')

/**
 * Tells if a row passes the filter of a request for rollouts.
 *
 * @param {object} row
 * @param {Record<string, string>} query
 * @param {(row: object) => string} textOf
 */
const passes = (row, query, textOf) =>
  within(row.step, query.step, query.step) &&
  within(row.step, query.minStep, query.maxStep) &&
  within(row.reward, query.minReward, query.maxReward) &&
  within(row.length, query.minLength, query.maxLength) &&
  within(row.advantage ?? 0, query.minAdvantage, query.maxAdvantage) &&
  within(row.turns, query.minTurns, undefined) &&
  isFlag(row.truncated, query.truncated) &&
  isFlag(row.failed, query.failed) &&
  isFlag(row.toolErrors > 0, query.toolErrors) &&
  partWithin(row, query.minPart, 1) &&
  partWithin(row, query.maxPart, -1) &&
  (query.group === undefined || row.group === query.group) &&
  (query.label === undefined || row.labels.includes(query.label)) &&
  (query.q === undefined || textOf(row).toLowerCase().includes(query.q.toLowerCase()))

const rolloutsAnswer = (answers, path, query) => {
  const textOf = (row) => {
    const whole = answers[`${path}/${encodeURIComponent(row.id)}`]
    return whole === undefined ? `${row.query}\n${row.snippet}` : whole.turns.map((turn) => turn.text).join('\n')
  }
  const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined && value !== ''))
  const rows = answers[path].rows.filter((row) => passes(row, given, textOf))
  const sign = given.order === 'desc' ? -1 : 1
  if (given.sort !== undefined) {
    rows.sort((a, b) => sign * ((fieldOf(a, given.sort) ?? 0) - (fieldOf(b, given.sort) ?? 0)) || a.index - b.index)
  }
  const offset = Number(given.offset ?? 0)
  return {
    total: rows.length,
    rows: rows.slice(offset, offset + Number(given.limit ?? 100)),
    histogram: {
      reward: histogramOf(rows.map((row) => row.reward)),
      length: histogramOf(rows.map((row) => row.length)),
    },
    isPartial: false,
  }
}

const metricsAnswer = (answer, names) => {
  if (names === undefined) return answer
  const wanted = names.split(',')
  return { ...answer, columns: Object.fromEntries(wanted.map((name) => [name, answer.columns[name] ?? []])) }
}

/** Returns the values of nested settings with their dotted paths. */
const flat = (value, path) =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.entries(value).flatMap(([name, each]) => flat(each, path === '' ? name : `${path}.${name}`))
    : [[path, value]]

const compareAnswer = (answers, query) => {
  const paths = query.runs.split(',').map((id) => `/api/runs/${encodeURIComponent(id)}`)
  const known = paths.filter((path) => answers[path] !== undefined)
  const runs = known.map((path) => answers[path])
  const settings = runs.map((run) => new Map(flat(run.settings, '')))
  return {
    runs,
    settings: [...new Set(settings.flatMap((each) => [...each.keys()]))].flatMap((path) => {
      const values = settings.map((each) => each.get(path) ?? null)
      return new Set(values.map((value) => JSON.stringify(value))).size > 1 ? [{ path, values }] : []
    }),
    metricNames: [...new Set(runs.flatMap((run) => run.metricNames))],
    metrics: known.map((path) => answers[`${path}/metrics`]),
  }
}

/**
 * Returns the answer to a request. Throws an Error if the data do not contain it.
 *
 * @param {Record<string, object>} answers by address
 * @param {string} path
 * @param {Record<string, string>} query
 */
export const answerFrom = (answers, path, query) => {
  if (path === '/api/compare') return compareAnswer(answers, query)
  const found = answers[path]
  if (found === undefined) throw new Error('this was not exported')
  if (LISTS.test(path)) return rolloutsAnswer(answers, path, query)
  return METRICS.test(path) ? metricsAnswer(found, query.names) : found
}
