/** A profile as text. */
import { type Peaks, rooflineShare, type StepFigures } from './figures.js'

/** Operators that take less of a step than this are added up. */
const LEAST_SHARE = 0.005

const percent = (share: number): string => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`

const rate = (amount: number, milliseconds: number, peak: number): readonly [string, string] => {
  if (amount === 0 || milliseconds === 0) return ['', '']
  const perSecond = (1000 * amount) / milliseconds
  return [(perSecond / 1e9).toFixed(1), percent(perSecond / peak)]
}

const HEADER = ['', 'calls', 'ms', 'share', 'GFLOP/s', 'of peak', 'GB/s', 'of peak'] as const

const aligned = (rows: readonly (readonly string[])[]): string => {
  const widths = HEADER.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  const cell = (text: string, column: number): string =>
    column === 0 ? text.padEnd(widths[0]!) : text.padStart(widths[column]!)
  return rows.map((row) => row.map(cell).join('  ').trimEnd()).join('\n')
}

/** Formats a profile: one row for each operator and each other part of a step. */
export const profileTable = (figures: StepFigures, peaks: Peaks): string => {
  const { stepMs, operators, parts } = figures
  const large = operators.filter(({ milliseconds }) => milliseconds >= LEAST_SHARE * stepMs)
  const small = operators.slice(large.length)
  const row = (name: string, count: string, milliseconds: number, rates: readonly string[]): readonly string[] => [
    ...[name, count, milliseconds.toFixed(2), percent(milliseconds / stepMs)],
    ...rates,
  ]
  const rest = {
    count: small.reduce((total, { count }) => total + count, 0),
    milliseconds: small.reduce((total, { milliseconds }) => total + milliseconds, 0),
  }
  return [
    aligned([
      HEADER,
      ...large.map(({ operator, count, milliseconds, operations, bytes }) =>
        row(operator, count.toFixed(0), milliseconds, [
          ...rate(operations, milliseconds, peaks.operations),
          ...rate(bytes, milliseconds, peaks.bytes),
        ]),
      ),
      ...(small.length === 0 ? [] : [row(`${small.length} others`, rest.count.toFixed(0), rest.milliseconds, [])]),
      ...parts.map(({ name, milliseconds }) => row(name, '', milliseconds, [])),
      row('step', '', stepMs, []),
    ]),
    '',
    `Peaks: ${(peaks.operations / 1e9).toFixed(0)} GFLOP/s, ${(peaks.bytes / 1e9).toFixed(1)} GB/s. ` +
      `At these, all operators would take ${percent(rooflineShare(figures))} of the step.`,
    'Values that fit in the cache move faster than the memory that the second peak measures.',
  ].join('\n')
}
