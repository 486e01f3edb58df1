/**
 * For those who serve the run viewer from a program, or write its page to a file. The command
 * `tandem view` does both.
 *
 * @module
 */
export { exportedPage, type StartOptions, startView } from './server.js'
