/** The version in package.json; a constant, because a bundled program has no package.json. */
export const version = '0.1.0'
