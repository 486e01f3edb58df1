/** When the phases of a step were. */
import type { PhaseSpan } from './sink.js'

/**
 * Phases that followed each other: the first began at `since` if the last has then ended by `at`, and otherwise so that the last ended
 * at `at`. A phase with less than no time took none.
 *
 * Units    seconds; `at` and `since` in milliseconds since 1970, as are the spans.
 *
 * @example
 * phaseSpans({ generation: 2, training: 1 }, { at: 9000 }) // [{ name: 'generation', from: 6000, to: 8000 }, { name: 'training', from: 8000, to: 9000 }]
 */
export const phaseSpans = (
  seconds: Readonly<Record<string, number>>,
  { at, since }: { readonly at: number; readonly since?: number },
): readonly PhaseSpan[] => {
  const lasted = (each: number): number => (each > 0 && Number.isFinite(each) ? 1000 * each : 0)
  const total = Object.values(seconds).reduce((sum, each) => sum + lasted(each), 0)
  let from = since !== undefined && since + total <= at ? since : at - total
  return Object.entries(seconds).map(([name, each]) => {
    const span = { name, from, to: from + lasted(each) }
    from = span.to
    return span
  })
}
