/** A strict reader of Prometheus's text format, version 0.0.4. */

interface Series {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface MetricFamily {
  readonly type: string
  readonly help: string
  /** By name: that of the family, or with `_bucket`, `_sum` or `_count` of a histogram. */
  readonly series: Readonly<Record<string, readonly Series[]>>
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const SERIES = /^([^\s{]+)(?:\{(.*)\})? (\S+)$/
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/y

const fail = (line: string, problem: string): never => {
  throw new Error(`${problem}: ${line}`)
}

const labelsOf = (line: string, text: string): Readonly<Record<string, string>> => {
  const labels: Record<string, string> = {}
  LABEL.lastIndex = 0
  while (LABEL.lastIndex < text.length) {
    const found = LABEL.exec(text) ?? fail(line, 'no label')
    if (found[1]! in labels) fail(line, 'a label twice')
    labels[found[1]!] = found[2]!.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c))
  }
  return labels
}

const VALUES: Readonly<Record<string, number>> = {
  ...{ '+Inf': Number.POSITIVE_INFINITY, '-Inf': Number.NEGATIVE_INFINITY, nan: Number.NaN },
}

const numberOf = (line: string, text: string): number => {
  const value = VALUES[text] ?? VALUES[text.toLowerCase()] // Go reads NaN in any case
  if (value !== undefined) return value
  return /^[+-]?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text) ? Number(text) : fail(line, 'no number')
}

const SUFFIXES: Readonly<Record<string, readonly string[]>> = { histogram: ['_bucket', '_sum', '_count'] }

/** What a histogram promises: buckets that grow up to the count, for each set of labels. */
const checkHistogram = (name: string, { series }: MetricFamily): void => {
  for (const { labels, value } of series[`${name}_count`] ?? []) {
    const mine = (series[`${name}_bucket`] ?? []).filter(({ labels: { le: _, ...rest } }) =>
      Object.entries(labels).every(([label, text]) => rest[label] === text),
    )
    const bounds = mine.map((each) => numberOf(name, each.labels.le!))
    const isRising = (xs: readonly number[]): boolean => xs.every((x, i) => i === 0 || x >= xs[i - 1]!)
    if (!isRising(bounds) || !isRising(mine.map((each) => each.value))) fail(name, 'buckets do not rise')
    if (bounds.at(-1) !== Number.POSITIVE_INFINITY || mine.at(-1)?.value !== value) fail(name, 'no last bucket')
  }
}

/**
 * Families by name. Throws for whatever the format does not allow, and for a series that is there
 * twice.
 */
export const readPrometheus = (text: string): Readonly<Record<string, MetricFamily>> => {
  if (!text.endsWith('\n')) fail(text.slice(-80), 'the last line does not end')
  const families: Record<string, { type: string; help: string; series: Record<string, Series[]> }> = {}
  const seen = new Set<string>()
  let current = ''
  for (const line of text.split('\n').slice(0, -1)) {
    if (line === '') continue
    const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? []
    if (kind === 'HELP') {
      if (name! in families || !NAME.test(name!)) fail(line, 'a family twice, or no name')
      current = name!
      families[current] = { type: '', help: rest!, series: {} }
    } else if (kind === 'TYPE') {
      if (name !== current || families[current]!.type !== '') fail(line, 'a type out of place')
      families[current]!.type = rest!
    } else {
      const [, series, labels = '', value] = SERIES.exec(line) ?? fail(line, 'no series')
      const family = families[current] ?? fail(line, 'no family')
      const allowed = (SUFFIXES[family.type] ?? ['']).map((suffix) => current + suffix)
      if (!allowed.includes(series!)) fail(line, `no series of ${current}`)
      const parsed = labelsOf(line, labels)
      const key = JSON.stringify([series, Object.entries(parsed).sort()])
      if (seen.has(key)) fail(line, 'a series twice')
      seen.add(key)
      family.series[series!] = [...(family.series[series!] ?? []), { labels: parsed, value: numberOf(line, value!) }]
    }
  }
  for (const [name, family] of Object.entries(families)) if (family.type === 'histogram') checkHistogram(name, family)
  return families
}

/** Every series as `name{label="text"}` and its value, without buckets. */
export const seriesOf = (text: string): Readonly<Record<string, number>> =>
  Object.fromEntries(
    Object.values(readPrometheus(text)).flatMap(({ series }) =>
      Object.entries(series)
        .filter(([name]) => !name.endsWith('_bucket'))
        .flatMap(([name, each]) =>
          each.map(({ labels, value }) => {
            const shown = Object.entries(labels).map(([label, word]) => `${label}="${word}"`)
            return [shown.length === 0 ? name : `${name}{${shown.join(',')}}`, value] as const
          }),
        ),
    ),
  )
