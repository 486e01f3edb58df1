/** `tandem tinker check`: checks what a Tinker server computes. */
import { shortNumber, textTable, visibleLine } from '@tandem-rl/base'
import { print } from '@tandem-rl/base/host'
import { Command, Option } from 'commander'
import { checkTinkerServer } from '../tinker/check/checkTinkerServer.js'
import type { TinkerCheck } from '../tinker/check/measure.js'
import type { TinkerWire } from '../tinker/client/trainer.js'
import { asCommandError } from './expectedErrors.js'
import { CommandError } from './failure.js'
import { checkServerUrl } from './options.js'
import { say } from './plan.js'
import { reminder } from './reminder.js'
import { wireOption } from './tinkerTraining.js'

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
  const waiting = reminder(10_000, (work, seconds) => say(`${work}: ${seconds} s so far\n`))
  waiting.begin('before the first check')
  try {
    const options = { ...(apiKey && { apiKey }), ...(baseModel && { baseModel }), ...(wire && { wire }) }
    for await (const each of checkTinkerServer({ url, ...options })) {
      checks.push(each)
      waiting.begin(`after the check ${each.check}`)
      if (json === true) print(`${JSON.stringify(each)}\n`)
      say(`${each.check}: ${each.verdict}\n`)
    }
  } catch (error) {
    throw asCommandError(error)
  } finally {
    waiting.stop()
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
    .addOption(wireOption())
    .option('--json', 'print each check as a line of JSON')
    .action(checkServer)

/** Makes the command. */
export const tinkerCommand = (): Command =>
  new Command('tinker').description('Check what a Tinker server computes.').addCommand(checkCommand())
