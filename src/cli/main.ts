/** The `tandem` command. */
import { print, printError, VERBOSE } from '@tandem-rl/base/host'
import { reportError } from '@tandem-rl/host'
import { Command } from 'commander'
import { version } from '../live/version.js'
import type { CommandEntry } from './commandEntry.js'
import { COMMANDS, RECIPE_COMMANDS } from './commands.js'
import { CommandError } from './failure.js'
import { guestCommands, KNOWN_GUESTS, refuseMissingGuest } from './guests.js'
import { suggestChoices } from './suggestChoices.js'

/** A recipe that is given as a command, such as `tandem sft`. */
const shortName = RECIPE_COMMANDS.find((recipe) => recipe === process.argv[2])
if (shortName !== undefined) process.argv.splice(2, 0, 'train')

/** `tandem help NAME` is `tandem NAME --help`. */
if (process.argv[2] === 'help' && process.argv.length > 3) process.argv.splice(2, 2, process.argv[3]!, '--help')

/** `--verbose` counts anywhere before `--`, after which the words belong to another program. */
const verboseAt = process.argv.indexOf('--verbose')
if (verboseAt >= 0 && !process.argv.slice(0, verboseAt).includes('--')) {
  process.argv.splice(verboseAt, 1)
  process.env[VERBOSE] = '1'
}

const [, , name, ...args] = process.argv

/** Only the command that runs is loaded; of the others `--help` shows the summary. */
const commandOf = async (entry: CommandEntry): Promise<Command> => {
  if (entry.name !== name) return new Command(entry.name).description(entry.summary).helpGroup(entry.group)
  const command = (await entry.load(args)).name(entry.name).helpGroup(entry.group)
  command.addHelpText('after', `\nExamples:\n${entry.examples.map((line) => `  ${line}`).join('\n')}`)
  suggestChoices(command)
  if (shortName !== undefined) command.configureHelp({ commandUsage: () => `tandem ${shortName} [options]` })
  return command.description() === '' ? command.description(entry.summary) : command
}

/** Prints help and mistakes of a command, and of those below it, as all other text. */
const withOutput = (command: Command): Command => {
  command.configureOutput({ writeOut: print, writeErr: printError })
  for (const each of command.commands) withOutput(each)
  return command
}

/** The own commands, and those of other packages unless an own one runs. */
const allCommands = async (): Promise<readonly CommandEntry[]> => {
  const own = COMMANDS.map((entry) => entry.name)
  return own.includes(name ?? '') ? COMMANDS : [...COMMANDS, ...(await guestCommands(process.cwd(), own))]
}

/** The lines of the help for commands that packages add which are not installed. */
const missingGuests = (commands: readonly CommandEntry[]): string => {
  const missing = Object.entries(KNOWN_GUESTS).filter(([guest]) => commands.every((entry) => entry.name !== guest))
  const lines = missing.map(([guest, from]) => `  ${guest.padEnd(9)} npm i -D ${from}`)
  return lines.length === 0 ? '' : `\nCommands of packages that are not installed:\n${lines.join('\n')}`
}

const program = async (): Promise<Command> => {
  const commands = await allCommands()
  if (commands.every((entry) => entry.name !== name)) refuseMissingGuest(name)
  const tandem = new Command('tandem')
    .description('Reinforcement-learning post-training of language models.')
    .version(version)
    .option('--verbose', 'print the whole stack of errors, in any command')
    .addHelpText(
      'after',
      `\nRecipes as commands, such as tandem sft for tandem train sft: ${RECIPE_COMMANDS.join(', ')}${missingGuests(commands)}`,
    )
    .showHelpAfterError()
  for (const entry of commands) tandem.addCommand(await commandOf(entry))
  return withOutput(tandem)
}

/** A reader such as `head` may close the pipe; this is not an error. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit(0)
})

try {
  await (await program()).parseAsync()
} catch (error) {
  const isExpected = error instanceof CommandError
  if (isExpected) printError(`tandem: ${error.message}\n`)
  else reportError(error)
  process.exitCode = isExpected ? 1 : 2
}

// A command has ended, whatever it has left open. What it has printed comes first.
await Promise.all([process.stdout, process.stderr].map((stream) => new Promise((done) => stream.write('', done))))
process.exit()
