# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_anchorite_global_optspecs
    string join \n h/help V/version
end

function __fish_anchorite_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_anchorite_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_anchorite_using_subcommand
    set -l cmd (__fish_anchorite_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c anchorite -n "__fish_anchorite_needs_command" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_needs_command" -s V -l version -d 'Print version'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "serve" -d 'Serves a directory without a configuration file'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "run" -d 'Runs the service in the foreground'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "check" -d 'Reads the configuration as `run` would and reports every fault'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "reload" -d 'Reads the configuration again; answers when the new one serves, or says why not'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "stop" -d 'Lets transfers finish and ends the service; answers when it has ended'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "reopen" -d 'Opens the log files again, after they were renamed'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "status" -d 'Prints the state of the service'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "site" -d 'Enables and disables the sites of sites-available'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "password" -d 'Adds a user to a password file, or changes the password of one; asks for it, or reads standard input'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "explain" -d 'Says why a URL is answered as it is: site, rules, files, permissions; offline'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "audit" -d 'Compares every running process of the service with the policy of its role'
complete -c anchorite -n "__fish_anchorite_needs_command" -f -a "policy" -d 'Prints what a role may do, and why'
complete -c anchorite -n "__fish_anchorite_using_subcommand serve" -l listen -d 'Where to listen' -r
complete -c anchorite -n "__fish_anchorite_using_subcommand serve" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand run" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand run" -l resume -d 'What the program before left, when it was replaced' -r
complete -c anchorite -n "__fish_anchorite_using_subcommand run" -l returned -d 'Why the program that took its place did not serve' -r
complete -c anchorite -n "__fish_anchorite_using_subcommand run" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand check" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand check" -l open -d 'An address that the service has which is to be replaced' -r
complete -c anchorite -n "__fish_anchorite_using_subcommand check" -l dump -d 'Prints the effective configuration, defaults filled in'
complete -c anchorite -n "__fish_anchorite_using_subcommand check" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand reload" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand reload" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand stop" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand stop" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand reopen" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand reopen" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand status" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand status" -l json -d 'For machines'
complete -c anchorite -n "__fish_anchorite_using_subcommand status" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and not __fish_seen_subcommand_from list enable disable" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and not __fish_seen_subcommand_from list enable disable" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and not __fish_seen_subcommand_from list enable disable" -f -a "list" -d 'Lists the sites that are there and says which are enabled'
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and not __fish_seen_subcommand_from list enable disable" -f -a "enable" -d 'Links a site into sites-enabled'
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and not __fish_seen_subcommand_from list enable disable" -f -a "disable" -d 'Removes the link of a site from sites-enabled'
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and __fish_seen_subcommand_from list" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and __fish_seen_subcommand_from enable" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and __fish_seen_subcommand_from enable" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and __fish_seen_subcommand_from disable" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand site; and __fish_seen_subcommand_from disable" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand password" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand explain" -s c -d 'The configuration file' -r -F
complete -c anchorite -n "__fish_anchorite_using_subcommand explain" -l method -r
complete -c anchorite -n "__fish_anchorite_using_subcommand explain" -l client -d 'Who asks; "unix:" over a socket in the file system [default: 127.0.0.1, or whoever comes that way]' -r
complete -c anchorite -n "__fish_anchorite_using_subcommand explain" -l header -d 'A field of the request, as "Name: value"; may be given more than once' -r
complete -c anchorite -n "__fish_anchorite_using_subcommand explain" -l json -d 'For machines'
complete -c anchorite -n "__fish_anchorite_using_subcommand explain" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand audit" -l json -d 'For machines'
complete -c anchorite -n "__fish_anchorite_using_subcommand audit" -s h -l help -d 'Print help'
complete -c anchorite -n "__fish_anchorite_using_subcommand policy" -s h -l help -d 'Print help'
