/** Errors of wrong values of options and arguments: they list the choices and suggest one. */
import { Argument, Command, Option } from 'commander'
import { describe, expect, it } from 'vitest'
import { suggestChoices } from '../../src/cli/suggestChoices.js'
import { tandem, useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

const parse = (args: readonly string[]): Command => {
  const command = new Command('paint')
    .addOption(new Option('--color <name>').choices(['green', 'blue']))
    .addArgument(new Argument('[wall]').choices(['left', 'right']))
    .exitOverride()
    .configureOutput({ writeErr: () => undefined })
  return suggestChoices(command).parse([...args], { from: 'user' })
}

describe('suggestChoices', () => {
  it('keeps values that are allowed', () => {
    const command = parse(['left', '--color', 'blue'])
    expect([command.args, command.opts()]).toEqual([['left'], { color: 'blue' }])
  })

  it.each([
    [
      ['--color', 'gren'],
      "option '--color <name>' argument 'gren' is invalid. Allowed choices are green, blue. Did you mean 'green'?",
    ],
    [
      ['rigth'],
      "command-argument value 'rigth' is invalid for argument 'wall'. Allowed choices are left, right. Did you mean 'right'?",
    ],
    [['--color', 'x'], "option '--color <name>' argument 'x' is invalid. Allowed choices are green, blue."],
  ])('refuses %j', (args, message) => {
    expect(() => parse(args)).toThrow(message)
  })
})

it('tandem suggests the nearest backend', async () => {
  const { code, stderr } = await tandem(['sample', '--backend', 'onnxruntim'], { cwd: path('') })
  expect(code).toBe(1)
  expect(stderr).toContain("Did you mean 'onnxruntime'?")
})
