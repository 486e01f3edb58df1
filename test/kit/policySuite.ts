/**
 * The conformance suite of policies, in one call: `policySuite('a policy', { can, faults, make })`.
 * Samples and log-probabilities are compared with our own scorer on the same checkpoint. Settings
 * that a policy lacks must be refused with a reason: these cases run too.
 */
import { afterAll, beforeAll, describe } from 'vitest'
import { endingCases, failureCases, lengthCases, signalCases, versionCases } from './policySuiteControl.js'
import type { PolicyAbilities, PolicySubject, Subject, SuiteFault } from './policySuiteParts.js'
import { groupCases, logProbCases, samplingCases } from './policySuiteSampling.js'

export interface PolicySuiteOptions {
  readonly can: PolicyAbilities
  /** Faults that the subject can be shown with. */
  readonly faults?: readonly SuiteFault[]
  /** Makes the subject once, before the first case; the suite closes it. */
  readonly make: () => Promise<PolicySubject>
}

/** Summaries of the tested policies, one line each. */
const lineOf = (name: string, can: PolicyAbilities): string => {
  const names = (value: string): string =>
    Object.entries(can)
      .flatMap(([ability, is]) => (is === value ? [ability] : []))
      .join(', ') || '-'
  return `policy suite, ${name}. Can: ${names('yes')}. Refuses: ${names('refused')}. Has not: ${names('absent')}.`
}

/** Tests a policy. Prints what it can, what it refuses, and what no program can ask of it. */
export const policySuite = (name: string, { can, faults = [], make }: PolicySuiteOptions): void => {
  describe(name, () => {
    let current: PolicySubject | undefined
    const subject: Subject = () => current!

    beforeAll(async () => {
      current = await make()
    })
    afterAll(async () => {
      await current?.close()
      console.info(lineOf(name, can))
    })

    describe('sampling', () => samplingCases(subject, can))
    describe('log-probabilities', () => logProbCases(subject, can))
    describe('ends of completions', () => endingCases(subject, can))
    describe('several completions, and keys', () => groupCases(subject, can))
    if (can.contextLimit === 'yes' || can.truncation !== 'absent') {
      describe('length of prompts', () => lengthCases(subject, can))
    }
    if (can.cancel === 'yes') describe('signals', () => signalCases(subject))
    describe('failures', () => failureCases(subject, faults))
    describe('versions', () => versionCases(subject, can))
  })
}
