/** Problems for a policy. */

/** One problem: the query for the policy, and the reference answer as the dataset has it. */
export interface Task {
  /** Unique in its source. */
  readonly id: string
  readonly query: string
  readonly answer: string
}
