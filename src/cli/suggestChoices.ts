import { nearestName } from '@tandem-rl/base'
import { type Command, InvalidArgumentError } from 'commander'

/**
 * Makes a command and its subcommands suggest the nearest allowed value when the value of an option
 * or an argument is not among its choices.
 */
export const suggestChoices = (command: Command): Command => {
  for (const part of [...command.options, ...command.registeredArguments]) {
    const { argChoices } = part
    if (argChoices === undefined) continue
    part.argParser((text: string) => {
      if (argChoices.includes(text)) return text
      const near = nearestName(text, argChoices)
      const hint = near === undefined ? '' : ` Did you mean '${near}'?`
      throw new InvalidArgumentError(`Allowed choices are ${argChoices.join(', ')}.${hint}`)
    })
  }
  for (const each of command.commands) suggestChoices(each)
  return command
}
