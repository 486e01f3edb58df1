/** Failures of tool calls. */

/**
 * The failure of a tool call. `arguments`: the arguments do not match the schema. `failed`: the
 * tool reports an error. `timeout`: the call took too long. The policy reads these three and may
 * correct itself. `infrastructure`: something the tool needs is missing or has died. This does not
 * depend on the policy, so the rollout fails and gets no reward.
 */
export interface ToolFailure {
  readonly _tag: 'ToolFailure'
  readonly tool: string
  readonly kind: 'arguments' | 'failed' | 'timeout' | 'infrastructure'
  /** The tool in an error message: `the tool 'search'`. */
  readonly where: string
  readonly reason: string
}
