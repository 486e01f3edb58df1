/** Compares what the specs did with the list of known exceptions. */

export interface SpecResult {
  /** The full name, as jasmine builds it. */
  readonly spec: string
  /** `pending`: the spec does not run anywhere. `excluded`: it was not asked for. */
  readonly status: 'passed' | 'failed' | 'pending' | 'excluded'
  readonly problems: readonly { readonly message: string; readonly stack: string }[]
}

/** A spec that is known to fail on a backend. */
export interface KnownException {
  readonly spec: string
  readonly reason: string
}

export interface Verdict {
  readonly passed: number
  readonly pending: number
  /** Failed and not in the list. */
  readonly failed: readonly SpecResult[]
  /** Failed and in the list. A name counts as often as there are specs of this name. */
  readonly known: readonly KnownException[]
  /** In the list, but passed or does not exist: the entry has to go. */
  readonly stale: readonly KnownException[]
}

/** Sorts results. A spec that was not run says nothing about its entry in the list. */
export const judge = (results: readonly SpecResult[], exceptions: readonly KnownException[]): Verdict => {
  const ran = results.filter(({ status }) => status !== 'excluded')
  const excluded = new Set(results.filter(({ status }) => status === 'excluded').map(({ spec }) => spec))
  const failing = ran.filter(({ status }) => status === 'failed')
  const failingNames = new Set(failing.map(({ spec }) => spec))
  const reasons = new Map(exceptions.map(({ spec, reason }) => [spec, reason]))
  return {
    passed: ran.filter(({ status }) => status === 'passed').length,
    pending: ran.filter(({ status }) => status === 'pending').length,
    failed: failing.filter(({ spec }) => !reasons.has(spec)),
    known: failing.flatMap(({ spec }) => {
      const reason = reasons.get(spec)
      return reason === undefined ? [] : [{ spec, reason }]
    }),
    stale: exceptions.filter(({ spec }) => !failingNames.has(spec) && !excluded.has(spec)),
  }
}

/**
 * The counts in one line, such as `4232 specs: 4220 passed, 5 pending, 7 known exceptions, 0
 * failed`.
 */
export const summaryLine = ({ passed, pending, failed, known, stale }: Verdict): string => {
  const total = passed + pending + failed.length + known.length
  const parts = [
    `${passed} passed`,
    `${pending} pending`,
    `${known.length} known exceptions`,
    `${failed.length} failed`,
  ]
  if (stale.length > 0) parts.push(`${stale.length} stale exceptions`)
  return `${total} specs: ${parts.join(', ')}`
}
