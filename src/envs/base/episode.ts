/** Episodes as tools and rewards see them. */
import type { Task } from '@tandem-rl/text'

/** The episode that a tool call or a reward belongs to. */
export interface Episode {
  /** Names the conversation. A retried conversation has the same name. */
  readonly chain: string
  /** Names the group of conversations about one draw of a task; the chain itself without groups. */
  readonly group: string
  /**
   * The task: its whole row if the environment keeps it (`keep: 'task'`), its columns otherwise.
   */
  readonly task: Task | undefined
}
