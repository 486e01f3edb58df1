/** Why calls of tools fail. */

/**
 * Says why a tool call gave no result. `arguments`: the arguments do not fit the schema. `failed`:
 * the tool reports an error. `timeout`: the call took too long. The policy reads these three and
 * may correct itself. `infrastructure`: what the tool needs is missing or has died, which says
 * nothing about the policy, so the rollout fails and gets no reward.
 */
export interface ToolFailure {
  readonly _tag: 'ToolFailure'
  readonly tool: string
  readonly kind: 'arguments' | 'failed' | 'timeout' | 'infrastructure'
  /** The tool in words: `the tool 'search'`. */
  readonly where: string
  readonly reason: string
}
