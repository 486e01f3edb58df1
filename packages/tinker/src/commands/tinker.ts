/** `tandem tinker check`: checks what a Tinker server computes. */
import { shortNumber, textTable, visibleLine } from '@tandem-rl/base'
import { print } from '@tandem-rl/base/host'
import { asCommandError, Command, CommandError, checkServerUrl, Option, reminded, say } from 'tandem-rl/command'
import { checkTinkerServer } from '../check/checkTinkerServer.js'
import type { TinkerCheck } from '../check/measure.js'
import type { TinkerWire } from '../client/trainer.js'

interface Flags {
  readonly baseModel?: string
  readonly json?: true
  readonly wire?: TinkerWire
}

const HEAD = ['check', 'verdict', 'finding', 'numbers'] as const

const cellsOf = ({ check, verdict, finding, numbers }: TinkerCheck): readonly string[] => [
  ...[check, verdict, visibleLine(finding)],
  ...[
    Object.entries(numbers)
      .map(([name, value]) => `${name} ${shortNumber(value)}`)
      .join(', '),
  ],
]

const checkServer = async (url: string, { baseModel, json, wire }: Flags): Promise<void> => {
  checkServerUrl('URL', url)
  const apiKey = process.env.TINKER_API_KEY
  const checks: TinkerCheck[] = []
  try {
    const options = { ...(apiKey && { apiKey }), ...(baseModel && { baseModel }), ...(wire && { wire }) }
    const results = checkTinkerServer({ url, ...options })[Symbol.asyncIterator]()
    for (;;) {
      const last = checks.at(-1)
      const work = last === undefined ? 'before the first check' : `after the check ${last.check}`
      const next = await reminded(work, () => results.next())
      if (next.done === true) break
      const each = next.value
      checks.push(each)
      if (json === true) print(`${JSON.stringify(each)}\n`)
      say(`${each.check}: ${each.verdict}\n`)
    }
  } catch (error) {
    throw asCommandError(error)
  }
  if (json !== true) print(`${textTable([HEAD, ...checks.map(cellsOf)]).join('\n')}\n`)
  const failed = checks.filter(({ verdict }) => verdict === 'failed')
  if (failed.length === 0) return
  throw new CommandError(
    `${failed.length} of ${checks.length} checks failed: ${failed.map(({ check }) => check).join(', ')}`,
  )
}

const checkCommand = (): Command =>
  new Command('check')
    .description(
      'Check what a Tinker server computes. The key is read from TINKER_API_KEY. Exits with 1 if a check failed.',
    )
    .argument('<url>', 'address of the server, such as http://127.0.0.1:8000')
    .addOption(new Option('--base-model <name>', 'model of the server (default: the first that it lists)'))
    .addOption(
      new Option('--wire <form>', 'form of losses (default: json, or protobuf if the server refuses it)').choices([
        'json',
        'protobuf',
      ]),
    )
    .option('--json', 'print each check as a line of JSON')
    .action(checkServer)

/** Makes the command. */
export const tinkerCommand = (): Command =>
  new Command('tinker').description('Check what a Tinker server computes.').addCommand(checkCommand())
