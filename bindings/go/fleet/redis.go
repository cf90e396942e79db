package fleet

import (
	"context"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/redis/go-redis/v9"
)

// Redis is a [Store] on a Redis or Valkey server or cluster.
type Redis struct {
	client redis.UniversalClient
	name   string
}

// NewRedis returns the store of the bandit with this name. Different bandits need different names. NewRedis does not
// connect: the first command does. Set Password and TLSConfig in the options to protect the connection, and Username
// for a user of Redis' access control list. With the address of one node of a cluster, set IsClusterMode. Call Close
// when done.
func NewRedis(options *redis.UniversalOptions, name string) *Redis {
	own := *options
	own.ContextTimeoutEnabled = true // no command may wait for a server that does not respond
	own.MaxRetries = -1              // the node repeats commands itself
	own.OnConnect = func(ctx context.Context, connection *redis.Conn) error {
		// Without its password Redis calls a script a protocol error, and this NOAUTH.
		if err := connection.Ping(ctx).Err(); err != nil || options.OnConnect == nil {
			return err
		}
		return options.OnConnect(ctx, connection)
	}
	return &Redis{redis.NewUniversalClient(&own), name}
}

// Close closes all connections.
func (r *Redis) Close() error { return r.client.Close() }

// Name implements [Store].
func (r *Redis) Name() string { return r.name }

// Run implements [Store] with EVALSHA, or EVAL if the server does not know the script.
func (r *Redis) Run(ctx context.Context, command dpb.Command) ([]byte, error) {
	args := make([]any, len(command.Args))
	for i, arg := range command.Args {
		args[i] = arg
	}
	reply := r.client.EvalSha(ctx, command.SHA1, command.Keys, args...)
	if redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") {
		reply = r.client.Eval(ctx, command.Script, command.Keys, args...)
	}
	text, err := reply.Text()
	return []byte(text), err
}
