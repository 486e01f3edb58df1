import type { Command } from 'commander'

/** A command before it is loaded. */
export interface CommandEntry {
  readonly name: string
  /** One sentence for `tandem --help`. */
  readonly summary: string
  /** Heading in `tandem --help`. */
  readonly group: 'Train:' | 'Evaluate:' | 'Serve:' | 'Play:' | 'Start:'
  /** Command lines for the end of the command's help. */
  readonly examples: readonly string[]
  /** Imports the command and makes its options. Those of recipes depend on the arguments. */
  readonly load: (args: readonly string[]) => Promise<Command>
}
