/** All commands: those of the kernel, and those of the packages of this repository. */
import { COMMANDS } from '../../src/cli/commands.js'
import { guestCommands } from '../../src/cli/guests.js'

const own = COMMANDS.map(({ name }) => name)

export const ALL_COMMANDS = [...COMMANDS, ...(await guestCommands(process.cwd(), own))]
