/** Failures of servers and providers, as failures of a policy. */
import { type Failure, type HttpFailure, redact } from '@tandem-rl/base'
import type { PolicyFailure } from '../../../data/policy.js'
import { errorOf } from '../failures.js'
import type { ReplyProblem } from './chatReply.js'

/** The party that a failure is attributed to. */
export type FailureKind = NonNullable<PolicyFailure['kind']>

/** Statuses that mean the server will never accept this request. */
const ASKED: readonly number[] = [400, 404, 405, 413, 415, 422, 501]

/**
 * Returns the kind of failure of a status. A wrong key, a rate limit or a server error does not
 * depend on the policy.
 */
export const kindOfStatus = (status: number): FailureKind => (ASKED.includes(status) ? 'asked' : 'infrastructure')

/** Makes a failure of a policy; its reason shows none of the policy's secrets. */
export const failureMaker =
  (policy: string, secrets: readonly string[] = []) =>
  (kind: FailureKind, reason: string, cause?: Failure): PolicyFailure => ({
    _tag: 'PolicyFailure',
    policy,
    kind,
    reason: redact(reason, secrets),
    ...(cause !== undefined && { cause }),
  })

/** Makes failures of one policy. */
export type FailureMaker = ReturnType<typeof failureMaker>

const kindOfHttp = ({ kind, status }: HttpFailure): FailureKind => {
  if (kind === 'cancelled') return 'cancelled'
  return kind === 'status' && status !== undefined ? kindOfStatus(status) : 'infrastructure'
}

/** The failure of a policy whose request failed, in the server's own words where it has some. */
export const httpPolicyFailure = (fail: FailureMaker, failure: HttpFailure): PolicyFailure => {
  const reported = errorOf(failure)
  const reason =
    reported === null || failure.status === undefined
      ? failure.reason
      : `${failure.server} answered ${failure.status}: ${reported.message}`
  return fail(kindOfHttp(failure), reason, failure)
}

/** The failure of a policy whose answer is of no use. */
export const replyFailure = (fail: FailureMaker, { kind, reason, status }: ReplyProblem): PolicyFailure =>
  kind === 'tokens-missing'
    ? fail(
        'asked',
        `${reason}: capture 'tokens' needs a server with return_token_ids (vLLM from 0.10.2, tandem serve); any server will do for capture 'text'`,
      )
    : fail(status === undefined ? 'infrastructure' : kindOfStatus(status), reason)
