/** Time spans of the phases of a step. */
import type { PhaseSpan } from './sink.js'

/**
 * Computes the spans of consecutive phases. The first one begins at `since` if the last one then
 * ends by `at`; otherwise the last one ends at `at`. Negative durations count as 0.
 *
 * Units    durations in seconds; `at`, `since` and spans in milliseconds since 1970.
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
